package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const stores = "../../internal/client/admin/testdata/"

func serverTLS(t *testing.T, name string, clientToo bool) *tls.Config {
	t.Helper()
	c, err := tls.LoadX509KeyPair(stores+name+".pem", stores+name+"-key.pem")
	must(t, err)
	config := &tls.Config{Certificates: []tls.Certificate{c}}
	if clientToo {
		ca, err := os.ReadFile(stores + "ca.pem")
		must(t, err)
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(ca)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config
}

// slowLines are what a busy machine adds.
var slowLines = regexp.MustCompile(`(?m)^kfeatures: waiting for .* to answer, up to .*\n`)

// Each kind of security, against a listener that has it, and what goes wrong.
func TestSecurity(t *testing.T) {
	const (
		trust  = "ssl.truststore.location=" + stores + "truststore.jks\nssl.truststore.password=changeit\n"
		trust2 = "ssl.truststore.location=" + stores + "truststore.p12\nssl.truststore.password=changeit\nssl.truststore.type=PKCS12\n"
		trust3 = "ssl.truststore.location=" + stores + "ca.pem\nssl.truststore.type=PEM\n"
		keys   = "ssl.keystore.location=" + stores + "keystore.jks\nssl.keystore.password=changeit\nssl.key.password=other-secret\n"
		keys2  = "ssl.keystore.location=" + stores + "keystore.p12\nssl.keystore.password=changeit\nssl.keystore.type=PKCS12\n"
		ssl    = "security.protocol=SSL\n"
		plain  = "sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"alice\" password=\"geheim, =;\";\n"
		scram  = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"geheim, =;\";\n"
		any    = "ssl.endpoint.identification.algorithm=\n"
	)
	server, named, mutual := serverTLS(t, "server", false), serverTLS(t, "common-name", false), serverTLS(t, "server", true)
	alice := func(mechanism string) *login { return &login{mechanism, "alice", "geheim, =;"} }
	tests := []struct {
		name   string
		tls    *tls.Config
		login  *login
		host   string // "": 127.0.0.1
		config string
		err    string // "": it works
	}{
		{"TLS, JKS", server, nil, "", ssl + trust, ""},
		{"TLS, PKCS12, by name", server, nil, "localhost", ssl + trust2, ""},
		{"TLS, PEM", server, nil, "", ssl + trust3, ""},
		{"TLS 1.2", server, nil, "", ssl + trust3 + "ssl.enabled.protocols=TLSv1.2\n", ""},
		{"TLS of both sides, JKS", mutual, nil, "", ssl + trust + keys, ""},
		{"TLS of both sides, PKCS12", mutual, nil, "", ssl + trust2 + keys2, ""},
		{"a certificate with nothing but a common name", named, nil, "localhost", ssl + trust, ""},
		{"a certificate for another name", named, nil, "", ssl + trust, "use a name that is in the certificate"},
		{"a certificate for any name", named, nil, "", ssl + trust + any, ""},
		{"an authority that is not trusted", server, nil, "", ssl, "ssl.truststore.location needs the certificate that signed the server's"},
		{"an authority that is not trusted, for any name", server, nil, "", ssl + any, "ssl.truststore.location needs the certificate that signed the server's"},
		{"no certificate of the client", mutual, nil, "", ssl + trust, "the listener asks the client for a certificate that it trusts: look at ssl.keystore.location"},
		{"SASL and TLS", server, alice("SCRAM-SHA-512"), "", "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n" + scram + trust, ""},
		{"PLAIN", nil, alice("PLAIN"), "", "security.protocol=SASL_PLAINTEXT\n" + plain, ""},
		{"SCRAM-SHA-256", nil, alice("SCRAM-SHA-256"), "", "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n" + scram, ""},
		{"SCRAM-SHA-512", nil, alice("SCRAM-SHA-512"), "", "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n" + scram, ""},
		{"another password, PLAIN", nil, &login{"PLAIN", "alice", "x"}, "", "security.protocol=SASL_PLAINTEXT\n" + plain, "Authentication failed: Invalid username or password"},
		{"another password, SCRAM", nil, &login{"SCRAM-SHA-256", "alice", "x"}, "", "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n" + scram, "look at sasl.mechanism and sasl.jaas.config"},
		{"another mechanism", nil, alice("SCRAM-SHA-512"), "", "security.protocol=SASL_PLAINTEXT\n" + plain, "set sasl.mechanism to one that the listener has"},
		{"nobody logs in", nil, alice("PLAIN"), "", "", "if the listener expects TLS or SASL: set security.protocol"},
		{"TLS where none is", nil, nil, "", ssl + trust, "security.protocol in the client's configuration must be that of the listener"},
		{"no TLS where some is", server, nil, "", "", "if the listener expects TLS or SASL: set security.protocol"},
		{"a store that is not there", server, nil, "", ssl + "ssl.truststore.location=none.jks\n", "no such file"},
		{"a key that no client knows", server, nil, "", ssl + trust + "ssl.keystore.locaton=x\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			versions := versionsAnswer(false, map[string][3]int16{"group.version": {0, 1, 1}})
			var asked atomic.Int32
			n := startNode(t, &fakeNode{tls: tt.tls, login: tt.login, answer: func(q kmsg.Request) kmsg.Response {
				// As Kafka's listeners with SASL: one ApiVersions in front of the login.
				if n := asked.Add(1); tt.login != nil && tt.config == "" && n > 1 {
					return nil
				}
				return versions
			}})
			address := n.address()
			if tt.host != "" {
				address = strings.Replace(address, "127.0.0.1", tt.host, 1)
			}
			config := filepath.Join(t.TempDir(), "client.properties")
			must(t, os.WriteFile(config, []byte(tt.config), 0o600))
			got := line("--bootstrap-server %s --command-config %s describe --timeout 1m", address, config)
			got.stderr = slowLines.ReplaceAllString(got.stderr, "")
			if tt.err == "" {
				if got.exit != 0 || !strings.HasPrefix(got.stdout, "Feature: group.version ") || (got.stderr != "") != strings.Contains(tt.name, "no client knows") {
					t.Errorf("%+v", got)
				}
				n.mu.Lock()
				defer n.mu.Unlock()
				if len(n.instances) != 1 || n.instances[uuid.Nil] {
					t.Errorf("instances in the request headers: %v", n.instances)
				}
				return
			}
			if got.exit != 1 || got.stdout != "" || !strings.Contains(got.stderr, tt.err) || !strings.Contains(tt.err, "no such file") && !strings.Contains(got.stderr, address) {
				t.Errorf("%+v", got)
			}
			for _, secret := range []string{"geheim", "changeit", "other-secret"} {
				if strings.Contains(got.stderr, secret) {
					t.Errorf("a secret is in %s", got.stderr)
				}
			}
		})
	}
}
