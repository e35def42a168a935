//go:build interop

package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const storePassword = "changeit"

// stores is a folder of key stores as keytool makes them. server.p12 has the key of a server at host, clients.p12 the
// certificates that it trusts. trust.TYPE and client.TYPE are those of a client, of each type.
type stores string

// storeTypes are the values of ssl.keystore.type.
var storeTypes = []string{"JKS", "PKCS12", "PEM"}

func newStores(t *testing.T) stores {
	t.Helper()
	s := stores(t.TempDir())
	s.generate(t, "server", "PKCS12", "server.p12", "-keyalg", "RSA", "-keysize", "2048", "-ext", "san=ip:"+host)
	s.export(t, "server", "server.p12", "trust.PEM")
	for _, kind := range []string{"JKS", "PKCS12"} {
		s.trust(t, "server", "trust.PEM", kind, "trust."+kind)
		s.generate(t, "client", kind, "client."+kind, "-keyalg", "EC", "-groupname", "secp256r1")
		s.export(t, "client", "client."+kind, kind+".pem")
		s.trust(t, kind, kind+".pem", "PKCS12", "clients.p12")
	}
	key, certificate := newPEM(t)
	writeFile(t, s.path("client.PEM"), key+certificate)
	writeFile(t, s.path("PEM.pem"), certificate)
	s.trust(t, "PEM", "PEM.pem", "PKCS12", "clients.p12")
	return s
}

func (s stores) path(name string) string { return filepath.Join(string(s), name) }

func (s stores) keytool(t *testing.T, store string, args ...string) {
	t.Helper()
	mustKafkaTool(t, keyTool, append(args, "-keystore", s.path(store), "-storepass", storePassword)...)
}

func (s stores) generate(t *testing.T, alias, kind, store string, args ...string) {
	t.Helper()
	s.keytool(t, store, append([]string{"-genkeypair", "-alias", alias, "-dname", "CN=" + alias, "-validity", "9", "-storetype", kind, "-keypass", storePassword}, args...)...)
}

func (s stores) export(t *testing.T, alias, store, file string) {
	t.Helper()
	s.keytool(t, store, "-exportcert", "-rfc", "-alias", alias, "-file", s.path(file))
}

func (s stores) trust(t *testing.T, alias, file, kind, store string) {
	t.Helper()
	s.keytool(t, store, "-importcert", "-noprompt", "-alias", alias, "-file", s.path(file), "-storetype", kind)
}

// newPEM makes what keytool can't: a private key in PEM.
func newPEM(t *testing.T) (key, certificate string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("PRIVATE KEY", pkcs8), text("CERTIFICATE", der)
}

// secure gives a broker that is a controller too listeners for each security protocol: those of its broker that newNode
// doesn't make, and two more of its controller. SSL wants a certificate of the client. It returns the addresses by
// the name of the listener.
func (n *node) secure(t *testing.T, s stores) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	listeners := []string{"PLAINTEXT://" + n.brokerAddress(), "SASL://" + n.saslAddress(), "CONTROLLER://" + n.controllerAddress()}
	names := []string{"SSL", "SASLSSL", "CONTROLLERSSL", "CONTROLLERSASLSSL"}
	for i, port := range freePorts(t, len(names)) {
		addresses[names[i]] = fmt.Sprintf("%s:%d", host, port)
		listeners = append(listeners, names[i]+"://"+addresses[names[i]])
	}
	n.properties = append(n.properties,
		"listeners="+strings.Join(listeners, ","),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL,SASLSSL:SASL_SSL,CONTROLLER:PLAINTEXT,CONTROLLERSSL:SSL,CONTROLLERSASLSSL:SASL_SSL",
		"controller.listener.names=CONTROLLER,CONTROLLERSSL,CONTROLLERSASLSSL",
		"ssl.keystore.type=PKCS12", "ssl.keystore.location="+s.path("server.p12"), "ssl.keystore.password="+storePassword, "ssl.key.password="+storePassword,
		"ssl.truststore.type=PKCS12", "ssl.truststore.location="+s.path("clients.p12"), "ssl.truststore.password="+storePassword,
		"listener.name.ssl.ssl.client.auth=required", "listener.name.controllerssl.ssl.client.auth=required")
	for _, name := range []string{"saslssl", "controllersaslssl"} {
		prefix := "listener.name." + name + "."
		n.properties = append(n.properties, prefix+"sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
			prefix+"scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
			prefix+"scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
	}
	return addresses
}

// trusting are the settings of a client that knows the server's certificate.
func (s stores) trusting(kind string) string {
	return s.settings("truststore", kind, "trust."+kind)
}

// certified are the settings of a client that has a certificate.
func (s stores) certified(kind string) string {
	text := s.settings("keystore", kind, "client."+kind)
	if kind == "JKS" { // in a PKCS12 store it is the same, in the PEM file the key is not encrypted
		text += "ssl.key.password=" + storePassword + "\n"
	}
	return text
}

func (s stores) settings(store, kind, file string) string {
	text := fmt.Sprintf("ssl.%s.type=%s\nssl.%[1]s.location=%[3]s\n", store, kind, s.path(file))
	if kind != "PEM" {
		text += fmt.Sprintf("ssl.%s.password=%s\n", store, storePassword)
	}
	return text
}

// login are the settings of a user that scram makes.
func login(mechanism, user, password string) string {
	return fmt.Sprintf("sasl.mechanism=%s\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\";\n", mechanism, user, password)
}
