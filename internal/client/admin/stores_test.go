package admin

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"kstorage/internal/client"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// properties is a file with lines, in which PEM in a value is written with \n.
func properties(t testing.TB, lines ...string) *client.Properties {
	t.Helper()
	path := t.TempDir() + "/client.properties"
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := client.ReadProperties(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func inline(pems ...[]byte) string {
	return strings.ReplaceAll(string(bytes.Join(pems, nil)), "\n", `\n`)
}

// problem checks that err is a *client.Error with a part, and without the secrets of the tests.
func problem(t *testing.T, err error, part string) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || !strings.Contains(e.Error()+"\n"+e.Fix, part) {
		t.Errorf("error %v, expected %q", err, part)
	}
	for _, secret := range []string{"changeit", "secret", "geheim"} {
		if err != nil && strings.Contains(fmt.Sprintf("%v %+v %s", err, err, e.Fix), secret) {
			t.Errorf("a secret is in %v", err)
		}
	}
}

func TestTrustStore(t *testing.T) {
	const l, p, k = "ssl.truststore.location=testdata/", "ssl.truststore.password=", "ssl.truststore.type="
	for reason, test := range map[string]struct {
		lines []string
		err   string
	}{
		"JKS":                             {[]string{l + "truststore.jks", p + "changeit"}, ""},
		"JKS without a password":          {[]string{l + "truststore.jks"}, ""},
		"JKS with another password":       {[]string{l + "truststore.jks", p + "geheim"}, "look at ssl.truststore.password"},
		"a key store as a trust store":    {[]string{l + "keystore.jks", p + "changeit"}, ""},
		"PKCS12":                          {[]string{l + "truststore.p12", p + "changeit", k + "PKCS12"}, ""},
		"PKCS12 where JKS is the default": {[]string{l + "truststore.p12", p + "changeit"}, ""},
		"JKS with the other type":         {[]string{l + "truststore.jks", p + "changeit", k + "pkcs12"}, ""},
		"PKCS12 with another password":    {[]string{l + "truststore.p12", p + "geheim"}, "look at ssl.truststore.password"},
		"PKCS12 without a password":       {[]string{l + "truststore.p12"}, "set ssl.truststore.password"},
		"PKCS12 with a key":               {[]string{l + "keystore.p12", p + "changeit"}, ""},
		"PEM":                             {[]string{l + "ca.pem", k + "PEM"}, ""},
		"PEM in the property":             {[]string{"ssl.truststore.certificates=" + inline(read(t, "ca.pem")), k + "PEM"}, ""},
		"PEM in the property, no type":    {[]string{"ssl.truststore.certificates=" + inline(read(t, "ca.pem"))}, "set ssl.truststore.type=PEM"},
		"PEM without its type":            {[]string{l + "ca.pem"}, "it is a PEM file: set ssl.truststore.type=PEM"},
		"PEM without a certificate":       {[]string{l + "make.sh", k + "PEM"}, "there is no certificate in it"},
		"an empty location":               {[]string{"ssl.truststore.location="}, "ssl.truststore.location or ssl.truststore.certificates is set to nothing"},
		"empty PEM":                       {[]string{"ssl.truststore.certificates=", k + "PEM"}, "is set to nothing"},
		"both":                            {[]string{l + "ca.pem", k + "PEM", "ssl.truststore.certificates=x"}, "both set"},
		"no file":                         {[]string{l + "none"}, "no such file"},
		"another type":                    {[]string{l + "truststore.jks", k + "BCFKS"}, `ssl.truststore.type is "BCFKS"`},
	} {
		t.Run(reason, func(t *testing.T) {
			pool, err := takeTrustStore(properties(t, test.lines...))
			if test.err != "" {
				problem(t, err, test.err)
				return
			}
			want := "ca.pem"
			if strings.Contains(test.lines[0], "keystore") {
				want = "client.pem"
			}
			block, _ := pem.Decode(read(t, want))
			c, _ := x509.ParseCertificate(block.Bytes)
			only := x509.NewCertPool()
			only.AddCert(c)
			if err != nil || !pool.Equal(only) {
				t.Errorf("error %v", err)
			}
		})
	}
	if pool, err := takeTrustStore(properties(t)); pool != nil || err != nil {
		t.Errorf("without a setting: %v, %v", pool, err)
	}
}

func TestKeyStore(t *testing.T) {
	const l, p, kp, k = "ssl.keystore.location=testdata/", "ssl.keystore.password=", "ssl.key.password=", "ssl.keystore.type="
	chain := "ssl.keystore.certificate.chain=" + inline(read(t, "client.pem"), read(t, "ca.pem"))
	key := func(name string) string { return "ssl.keystore.key=" + inline(read(t, name)) }
	both := t.TempDir() + "/both.pem"
	if err := os.WriteFile(both, append(read(t, "client-key.pem"), read(t, "client.pem")...), 0o600); err != nil {
		t.Fatal(err)
	}
	for reason, test := range map[string]struct {
		lines []string
		chain int
		err   string
	}{
		"JKS":                               {[]string{l + "keystore.jks", p + "changeit", kp + "other-secret"}, 2, ""},
		"JKS, the password of the key":      {[]string{l + "keystore.jks", p + "changeit"}, 0, "does not open its key"},
		"JKS, the password of the store":    {[]string{l + "keystore.jks", p + "geheim", kp + "other-secret"}, 0, "look at ssl.keystore.password"},
		"JKS without a key":                 {[]string{l + "truststore.jks", p + "changeit"}, 0, "there is no private key in it"},
		"PKCS12 of openssl":                 {[]string{l + "keystore.p12", p + "changeit", k + "PKCS12"}, 2, ""},
		"PKCS12 of keytool":                 {[]string{l + "keystore-keytool.p12", p + "changeit"}, 2, ""},
		"PKCS12 with another password":      {[]string{l + "keystore.p12", p + "geheim"}, 0, "look at ssl.keystore.password"},
		"PEM in a file":                     {[]string{"ssl.keystore.location=" + both, k + "PEM"}, 1, ""},
		"PEM in properties":                 {[]string{key("client-key.pem"), chain, k + "PEM"}, 2, ""},
		"PEM, encrypted":                    {[]string{key("client-key-encrypted.pem"), chain, k + "PEM", kp + "changeit"}, 2, ""},
		"PEM, encrypted with SHA-1":         {[]string{key("client-key-sha1.pem"), chain, k + "PEM", kp + "changeit"}, 2, ""},
		"PEM, encrypted, no password":       {[]string{key("client-key-encrypted.pem"), chain, k + "PEM"}, 0, "ssl.key.password is not set"},
		"PEM, encrypted, another password":  {[]string{key("client-key-encrypted.pem"), chain, k + "PEM", kp + "geheim"}, 0, "ssl.key.password does not open its key"},
		"PEM, encrypted as nobody does now": {[]string{key("client-key-3des.pem"), chain, k + "PEM", kp + "changeit"}, 0, "openssl pkcs8 -topk8 -v2 aes-256-cbc"},
		"PEM, not PKCS#8":                   {[]string{key("client-key-pkcs1.pem"), chain, k + "PEM"}, 0, "openssl pkcs8 -topk8"},
		"PEM without a certificate":         {[]string{key("client-key.pem"), k + "PEM"}, 0, "there is no certificate for the key"},
		"PEM, the key of another":           {[]string{key("server-key.pem"), chain, k + "PEM"}, 0, "its first certificate is not for the key"},
		"a chain alone":                     {[]string{chain, k + "PEM"}, 0, "is set without ssl.keystore.key"},
	} {
		t.Run(reason, func(t *testing.T) {
			c, err := takeKeyStore(properties(t, test.lines...))
			if test.err != "" {
				problem(t, err, test.err)
				return
			}
			block, _ := pem.Decode(read(t, "client.pem"))
			if err != nil || len(c.Certificate) != test.chain || !bytes.Equal(c.Certificate[0], block.Bytes) {
				t.Errorf("%v", err)
			}
		})
	}
	if c, err := takeKeyStore(properties(t)); c != nil || err != nil {
		t.Errorf("without a setting: %v, %v", c, err)
	}
}

// TestPEMInOneLine: a property may have what stands on lines in PEM with any blanks in between.
func TestPEMInOneLine(t *testing.T) {
	for _, blank := range []string{"\n", " ", "\t", "\r\n", " \n  ", "  "} {
		form := func(names ...string) []byte {
			var all []byte
			for _, name := range names {
				all = append(all, read(t, name)...)
			}
			return bytes.ReplaceAll(all, []byte("\n"), []byte(blank))
		}
		if list, err := pemCertificates(form("client.pem", "client-key.pem", "ca.pem")); err != nil || len(list) != 2 || list[0].Subject.CommonName != "client" {
			t.Errorf("blanks %q: %d certificates, %v", blank, len(list), err)
		}
		for name, password := range map[string]string{"client-key.pem": "", "client-key-encrypted.pem": "changeit"} {
			if key, err := pemKey(form("client.pem", name), password); err != nil || key == nil {
				t.Errorf("blanks %q, %s: %v", blank, name, err)
			}
		}
	}
}

// A store that ends anywhere, or has a wrong byte anywhere, is an error and nothing else.
func TestDamagedJKS(t *testing.T) {
	whole := read(t, "keystore.jks")
	for i := range whole {
		if _, err := readJKS(whole[:i], "changeit", true); err == nil {
			t.Errorf("cut at %d: no error", i)
		}
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x80
		if _, err := readJKS(damaged, "changeit", true); err == nil {
			t.Errorf("damaged at %d: no error", i)
		}
	}
}

func FuzzJKS(f *testing.F) {
	f.Add(read(f, "keystore.jks"))
	f.Add(read(f, "truststore.jks"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		readJKS(data, "", false)
		jksKey(data, "", "other-secret", false)
	})
}

func FuzzPKCS8(f *testing.F) {
	for _, name := range []string{"client-key-encrypted.pem", "client-key-sha1.pem", "client-key-3des.pem"} {
		block, _ := pem.Decode(read(f, name))
		f.Add(block.Bytes)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4096 && !bytes.Contains(data, []byte{2, 4}) && !bytes.Contains(data, []byte{2, 3}) { // millions of iterations
			decryptPKCS8(data, "changeit")
		}
	})
}
