package admin

import (
	"cmp"
	"crypto/tls"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestJAAS(t *testing.T) {
	const m = "org.apache.kafka.common.security.plain.PlainLoginModule"
	for reason, test := range map[string]struct {
		text string
		want map[string]string
		err  string
	}{
		"the form of the documentation": {m + ` required username="alice" password="alice-secret";`, map[string]string{"username": "alice", "password": "alice-secret"}, ""},
		"blanks anywhere":               {" " + m + "\n\trequired\n  username = \"alice\" \n password=\t'p' ; ", map[string]string{"username": "alice", "password": "p"}, ""},
		"no blank where none is needed": {m + ` required a="1"b="2";`, map[string]string{"a": "1", "b": "2"}, ""},
		"words":                         {m + ` Required username=alice password=p-1_$;`, map[string]string{"username": "alice", "password": "p-1_$"}, ""},
		"signs in a quoted text":        {m + ` optional p="a;b=c 'd' // e /* f */";`, map[string]string{"p": "a;b=c 'd' // e /* f */"}, ""},
		"escapes":                       {m + ` requisite p="\"\\\n\101\x\12";`, map[string]string{"p": "\"\\\nAx\n"}, ""},
		"an empty text":                 {m + ` sufficient p="";`, map[string]string{"p": ""}, ""},
		"comments":                      {"/* a */ " + m + " // b\n required /* ; */ p='1';// c", map[string]string{"p": "1"}, ""},
		"no options":                    {m + " required;", map[string]string{}, ""},
		"nothing":                       {"", nil, "the name of a login module"},
		"no flag":                       {m + ` username="geheim";`, nil, "required is expected"},
		"no semicolon":                  {m + ` required password="geheim"`, nil, "a semicolon is expected"},
		"no quotation mark":             {m + ` required password="geheim;`, nil, "a quotation mark is missing"},
		"no value":                      {m + ` required password=;`, nil, "has no value"},
		"no equals sign":                {m + ` required password "geheim";`, nil, "name=value"},
		"no name":                       {m + ` required ="geheim";`, nil, "name=value"},
		"two":                           {m + ` required;` + m + ` required p="geheim";`, nil, "more than one login module"},
		"a line that ends":              {m + " required p=\"geheim\n\";", nil, "behind the end of its line"},
	} {
		e, err := parseJAAS(test.text)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "geheim") {
				t.Errorf("%s: error %v, expected %s", reason, err, test.err)
			}
			continue
		}
		if err != nil || e.module != m || !maps.Equal(e.options, test.want) {
			t.Errorf("%s: %+v, %v", reason, e, err)
		}
	}
}

// TestFilesOfClients reads whole files as clients have them, in the forms that Kafka's documentation shows. Apache Kafka 4.4.0
// takes all of them but for the two that need a keytab, or leave to ask a server for a token.
func TestFilesOfClients(t *testing.T) {
	for file, want := range map[string]struct {
		encrypted, certificate bool
		mechanism, clientID    string
		err                    string // "": none
	}{
		"plaintext_windows": {clientID: "caf\u00e9"},
		"sasl_gssapi":       {err: "GSSAPI"},
		"sasl_oauthbearer":  {err: "OAUTHBEARER"},
		"sasl_scram":        {mechanism: "SCRAM-SHA-512", clientID: "operator-1"},
		"sasl_ssl_plain":    {encrypted: true, mechanism: "PLAIN"},
		"ssl_mutual":        {encrypted: true, certificate: true},
		"ssl_pem_files":     {encrypted: true},
		"ssl_pem_inline":    {encrypted: true, certificate: true},
	} {
		s, unknown, err := ReadSettings(filepath.Join("..", "testdata", "settings", file+".properties"))
		if want.err != "" {
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: error %v, expected %s", file, err, want.err)
			}
			continue
		}
		if err != nil || len(unknown) > 0 || s.ClientID != cmp.Or(want.clientID, software) {
			t.Errorf("%s: %v, unknown %q, client.id %q", file, err, unknown, s.ClientID)
		}
		mechanism := ""
		if s.mechanism != nil {
			mechanism = s.mechanism.Name()
		}
		if encrypted := s.tls != nil; encrypted != want.encrypted || encrypted && (s.tls.roots == nil || (s.tls.certificate != nil) != want.certificate) || mechanism != want.mechanism {
			t.Errorf("%s: %+v, %s", file, s.tls, mechanism)
		}
	}
}

func FuzzJAAS(f *testing.F) {
	f.Add("org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"w=o:nd\\\"er land\" ;")
	f.Add(`com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/etc/a.keytab" principal="a/b@EXAMPLE.COM";`)
	f.Add(`org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="foo" clientSecret="bar" scope="baz";`)
	f.Add(`a.B required username="alice" password='\'x\101';`)
	f.Add("/* // */ a optional // \n x=y ;")
	f.Fuzz(func(_ *testing.T, text string) { parseJAAS(text) })
}

func TestSettings(t *testing.T) {
	const scram = `sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="geheim";`
	const plain = `sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="geheim";`
	for reason, test := range map[string]struct {
		lines     []string
		tls       bool
		mechanism string
		unknown   []string
		err       string
	}{
		"nothing":                        {nil, false, "", nil, ""},
		"PLAINTEXT leaves the rest":      {[]string{"sasl.mechanism=GSSAPI", "ssl.truststore.location=none", plain}, false, "", nil, ""},
		"SSL":                            {[]string{"security.protocol=ssl"}, true, "", nil, ""},
		"PLAIN":                          {[]string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", plain}, false, "PLAIN", nil, ""},
		"SCRAM-SHA-256":                  {[]string{"security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-256", scram}, true, "SCRAM-SHA-256", nil, ""},
		"SCRAM-SHA-512":                  {[]string{"security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512", scram}, true, "SCRAM-SHA-512", nil, ""},
		"keys that nobody knows":         {[]string{"ssl.trustore.location=x", "sasl.username=x", "ssl.protocol=TLS"}, false, "", []string{"ssl.trustore.location", "sasl.username"}, ""},
		"the default mechanism":          {[]string{"security.protocol=SASL_PLAINTEXT"}, false, "", nil, "sasl.mechanism GSSAPI is not supported"},
		"OAUTHBEARER":                    {[]string{"security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER"}, false, "", nil, "sasl.mechanism OAUTHBEARER is not supported"},
		"no login":                       {[]string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN"}, false, "", nil, "sasl.jaas.config is not set"},
		"the module of another":          {[]string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", scram}, false, "", nil, "does not go with sasl.mechanism PLAIN"},
		"no user":                        {[]string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", `sasl.jaas.config=PlainLoginModule required password="geheim";`}, false, "", nil, "has no username"},
		"no JAAS":                        {[]string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.jaas.config=alice:geheim"}, false, "", nil, "not of the form of JAAS"},
		"no protocol":                    {[]string{"security.protocol=TLS"}, false, "", nil, `security.protocol is "TLS"`},
		"no duration":                    {[]string{"request.timeout.ms=geheim"}, false, "", nil, "request.timeout.ms is not a number"},
		"a config provider":              {[]string{"config.providers=file"}, false, "", nil, "config.providers is not supported"},
		"a class of one's own":           {[]string{"ssl.engine.factory.class=a.B"}, false, "", nil, "ssl.engine.factory.class is not supported"},
		"another way to check names":     {[]string{"security.protocol=SSL", "ssl.endpoint.identification.algorithm=LDAPS"}, false, "", nil, "ssl.endpoint.identification.algorithm"},
		"a protocol that nobody has":     {[]string{"security.protocol=SSL", "ssl.enabled.protocols=TLSv1.2,SSLv3"}, false, "", nil, `"SSLv3"`},
		"a cipher suite that nobody has": {[]string{"security.protocol=SSL", "ssl.cipher.suites=TLS_NO"}, false, "", nil, `"TLS_NO"`},
	} {
		t.Run(reason, func(t *testing.T) {
			s, unknown, err := settings(properties(t, test.lines...))
			if test.err != "" {
				problem(t, err, test.err)
				return
			}
			mechanism := ""
			if s.mechanism != nil {
				mechanism = s.mechanism.Name()
			}
			if err != nil || (s.tls != nil) != test.tls || mechanism != test.mechanism || !slices.Equal(unknown, test.unknown) || s.ClientID != software {
				t.Errorf("%+v, %q, %v", s, unknown, err)
			}
		})
	}
}

func TestTLSSettings(t *testing.T) {
	s, err := takeTLS(properties(t, "ssl.endpoint.identification.algorithm=", "ssl.enabled.protocols=TLSv1.2", "ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256"))
	if err != nil || !s.anyName || s.min != tls.VersionTLS12 || s.max != tls.VersionTLS12 ||
		!slices.Equal(s.ciphers, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_AES_128_GCM_SHA256}) || s.roots != nil || s.certificate != nil {
		t.Errorf("%+v, %v", s, err)
	}
}
