package scram

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// verdict is a line of testdata/kafka-4.4.0.jsonl: what kafka-storage format of Apache Kafka 4.4.0 made of an argument
// of --add-scram, on a controller at metadata.version 4.4-IV2. Either Credential is there, as it was written into the
// checkpoint, or the sentence with which Kafka refused.
type verdict struct {
	Name       string
	Arg        string
	Credential *record
	Refused    string
}

type record struct {
	Mechanism                  Mechanism
	Name                       string
	Iterations                 int32
	Salt, StoredKey, ServerKey []byte
}

func recordOf(c Credential) record {
	return record{c.Mechanism, c.Name, c.Iterations, c.Salt(), c.StoredKey(), c.ServerKey()}
}

func verdicts(t testing.TB) []verdict {
	file, err := os.Open("testdata/kafka-4.4.0.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []verdict
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatal("no verdicts", err)
	}
	return all
}

func TestVerdictsOfKafka(t *testing.T) {
	for _, v := range verdicts(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			a, err := Parse(v.Arg)
			if v.Credential == nil {
				if err == nil {
					t.Fatalf("accepted, Kafka says: %s", v.Refused)
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if a.salt == nil {
				a.salt = hide(v.Credential.Salt) // it was random
			}
			c, err := a.Derive(nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := recordOf(c); !reflect.DeepEqual(got, *v.Credential) {
				t.Errorf("credential is %+v, Kafka has %+v", got, *v.Credential)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, arg, reason string
	}{
		{"comma in the password", "SCRAM-SHA-256=[name=alice,password=ab,cd]", "a comma separates fields"},
		{"comma and equals sign in the password", "SCRAM-SHA-256=[name=alice,password=ab,cd=ef]", "a comma separates fields"},
		{"blank behind a comma", "SCRAM-SHA-256=[name=alice, password=x]", "field 2 is none of"},
		{"name that no record holds", "SCRAM-SHA-256=[name=" + strings.Repeat("é", maxNameBytes/2+1) + ",password=x]", "more than 32767 bytes"},
		{"not UTF-8", "SCRAM-SHA-256=[name=alice,password=\xff]", "not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse(tt.arg); err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("Parse = %v, want %q", err, tt.reason)
			}
		})
	}
}

func TestDeriveDrawsTheSalt(t *testing.T) {
	a, err := Parse("SCRAM-SHA-512=[name=alice,password=secret]")
	if err != nil {
		t.Fatal(err)
	}
	one, err := a.Derive(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := a.Derive(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if len(one.Salt()) != 32 || bytes.Equal(one.Salt(), other.Salt()) || bytes.Equal(one.StoredKey(), other.StoredKey()) {
		t.Errorf("salts %x and %x, want two of 32 random bytes", one.Salt(), other.Salt())
	}
	if _, err := a.Derive(iotest.ErrReader(os.ErrDeadlineExceeded)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error is %v, want the one of the random source", err)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	// As text, in hex, and as a list of bytes.
	forms := func(secret []byte) []string {
		list := fmt.Sprint(secret)
		return []string{string(secret), fmt.Sprintf("%x", secret), list[1 : len(list)-1], strings.ReplaceAll(fmt.Sprintf("%#v", secret), "[]byte", "")}
	}
	for _, arg := range []string{
		"SCRAM-SHA-256=[name=alice,password=hunter22,salt=c2FsdHNhbHQ=]",
		"SCRAM-SHA-512=[name=alice,saltedpassword=aHVudGVyMjI=,salt=c2FsdHNhbHQ=]",
	} {
		a, err := Parse(arg)
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Derive(nil)
		if err != nil {
			t.Fatal(err)
		}
		secrets := append(forms([]byte("hunter22")), forms([]byte("saltsalt"))...)
		secrets = append(append(secrets, forms(c.StoredKey())...), forms(c.ServerKey())...)
		hidden := struct {
			a Argument
			p *Argument
			c Credential
			s []*Credential
		}{a, &a, c, []*Credential{&c}}
		for _, value := range []any{a, &a, c, &c, []Argument{a}, []*Credential{&c}, map[string]Credential{"c": c}, hidden, &hidden} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%t"} {
				text := fmt.Sprintf(verb, value)
				for _, secret := range secrets {
					if strings.Contains(text, secret) {
						t.Errorf("%T printed with %s shows %q: %s", value, verb, secret, text)
					}
				}
			}
		}
	}
}

// FuzzParse puts a secret into an argument: neither an error nor a printed Argument shows it, unless it became the name.
func FuzzParse(f *testing.F) {
	for _, v := range verdicts(f) {
		f.Add(v.Arg, len(v.Arg)/2)
	}
	f.Fuzz(func(t *testing.T, arg string, at int) {
		const secret = "hunter22"
		if at < 0 || at > len(arg) {
			at = len(arg)
		}
		a, err := Parse(arg[:at] + secret + arg[at:])
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Fatalf("error shows the secret: %v", err)
			}
			return
		}
		if !strings.Contains(a.name, secret) && strings.Contains(fmt.Sprintf("%+v", a), secret) {
			t.Fatalf("printed: %+v", a)
		}
		if a.iterations < minIterations || a.iterations > maxIterations || a.password == nil && a.saltedPassword == nil {
			t.Fatalf("accepted without a password or with %d iterations", a.iterations)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(`SCRAM-SHA-256=[name=alice,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5eTFrN3E=",password=secret]`); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDerive(b *testing.B) {
	for _, m := range []Mechanism{SHA256, SHA512} {
		b.Run(m.String(), func(b *testing.B) {
			a, err := Parse(m.String() + "=[name=alice,password=secret]")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Derive(rand.Reader); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
