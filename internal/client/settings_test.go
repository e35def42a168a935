package client

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	d := DefaultSettings()
	for reason, test := range map[string]struct {
		file    string
		change  func(*Settings)
		unknown []string
		err     string // "": none
	}{
		"nothing":                        {"", func(*Settings) {}, nil, ""},
		"what counts":                    {"client.id=me\nrequest.timeout.ms=1\ndefault.api.timeout.ms = 2\nretry.backoff.ms=3\nretry.backoff.max.ms=4\nsocket.connection.setup.timeout.ms=5\n", func(s *Settings) { *s = Settings{"me", 1e6, 2e6, 5e6, 3e6, 4e6} }, nil, ""},
		"the last of two counts":         {"request.timeout.ms=x\nrequest.timeout.ms=2000\n", func(s *Settings) { s.RequestTimeout = 2 * time.Second }, nil, ""},
		"settings without effect":        {"bootstrap.servers=a:1\nssl.truststore.password=secret\nsasl.mechanism=PLAIN\nretries=3\n", func(*Settings) {}, nil, ""},
		"settings that nobody knows":     {"security.protcol=SSL\na.b=1\n", func(*Settings) {}, []string{"security.protcol", "a.b"}, ""},
		"PLAINTEXT in any case":          {"security.protocol=plaintext\n", func(*Settings) {}, nil, ""},
		"a security protocol to come":    {"\nsecurity.protocol=SASL_SSL\n", nil, nil, "security.protocol=SASL_SSL is not supported yet: f line 2"},
		"no security protocol":           {"security.protocol=TLS\n", nil, nil, `security.protocol is "TLS", which is no security protocol: f line 1`},
		"no number, whose value is kept": {"request.timeout.ms=secret\n", nil, nil, "request.timeout.ms is not a number of milliseconds from 0 to 2147483647: f line 1"},
		"a negative number":              {"default.api.timeout.ms=-1\n", nil, nil, "default.api.timeout.ms is not a number of milliseconds from 0 to 2147483647: f line 1"},
		"no properties":                  {"a=\\u00g\n", nil, nil, "the client's configuration is no properties file"},
	} {
		s, unknown, err := decodeSettings("f", test.file)
		if test.err != "" {
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Error(), test.err) || strings.Contains(e.Error(), "secret") {
				t.Errorf("%s: error %v, expected %s", reason, err, test.err)
			}
			continue
		}
		want := d
		test.change(&want)
		if err != nil || s != want || !slices.Equal(unknown, test.unknown) {
			t.Errorf("%s: %+v, %q, %v; expected %+v, %q", reason, s, unknown, err, want, test.unknown)
		}
	}
	if _, _, err := ReadSettings(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("client.id=me\nrequest.timeout.ms=1\nsecurity.protocol=SSL\n")
	f.Add("retry.backoff.ms=9223372036854775807\nx=\\u0041")
	files, err := filepath.Glob("testdata/settings/*.properties")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, file string) {
		s, _, err := decodeSettings("f", file)
		if err == nil && (s.ClientID == "" || s.Timeout < 0 || s.RequestTimeout < 0 || s.RetryBackoff < 0) {
			t.Errorf("%+v", s)
		}
	})
}

// TestUnknownShowsNoSecret has values whose lines end without a backslash, so that they go on as keys.
func TestUnknownShowsNoSecret(t *testing.T) {
	_, unknown, err := decodeSettings("f", "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEvQgeheim\nabcgeheim==\n-----END PRIVATE KEY-----\n"+
		"sasl.jaas.config=A required password=\n  \"geheim\";\nsasl.username=x\n")
	want := []string{"what line 2 begins with", "what line 3 begins with", "what line 4 begins with", "what line 6 begins with", "sasl.username"}
	if text := strings.Join(unknown, ", "); err != nil || !slices.Equal(unknown, want) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestParseBootstrap(t *testing.T) {
	for list, want := range map[string][]string{
		"localhost:9092":                {"localhost:9092"},
		"a:1, b:2,,c:65535 ,":           {"a:1", "b:2", "c:65535"},
		"[::1]:9093":                    {"[::1]:9093"},
		"PLAINTEXT://a:1,SSL://[::2]:3": {"a:1", "[::2]:3"},
	} {
		if got, err := ParseBootstrap(list, "--x"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
	for _, list := range []string{"", ",", "localhost", "localhost:", ":9092", "a:x", "a:0", "a:65536", "::1:9093", "a:1,b", "a:-1", "[ a]:1", "a b:1", "a\x00:1"} {
		if got, err := ParseBootstrap(list, "--x"); err == nil || !strings.Contains(err.Error(), "--x") {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
}

func FuzzParseBootstrap(f *testing.F) {
	f.Add("localhost:9092,[::1]:9093")
	f.Add("PLAINTEXT://a:1")
	f.Fuzz(func(t *testing.T, list string) {
		got, err := ParseBootstrap(list, "--x")
		if err == nil && len(got) == 0 {
			t.Fatal("no address and no error")
		}
		if err != nil {
			return
		}
		again, err := ParseBootstrap(strings.Join(got, ","), "--x")
		if err != nil || !slices.Equal(got, again) {
			t.Errorf("%q: %q, then %q, %v", list, got, again, err)
		}
	})
}

func decodeSettings(path, file string) (s Settings, unknown []string, err error) {
	p, err := parseProperties(path, []byte(file))
	if err != nil {
		return s, nil, err
	}
	return p.plaintext()
}
