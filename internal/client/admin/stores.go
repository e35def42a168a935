package admin

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"software.sslmate.com/src/go-pkcs12"

	"kstorage/internal/client"
	"kstorage/internal/disk"
)

// maxStoreBytes is far more than a store has.
const maxStoreBytes = 1 << 24

// store is a file with certificates or a key, as the settings name it.
type store struct {
	prefix      string // ssl.truststore or ssl.keystore
	data        []byte
	pem         bool
	password    string
	hasPassword bool
	where       string
}

// takeStore takes the settings of a store; inline is the key of the property that has PEM itself. It is nil if there is none.
func takeStore(p *client.Properties, prefix, inline string) (*store, error) {
	s := &store{prefix: prefix}
	kind, kindWhere, _ := p.Take(prefix + ".type")
	s.password, _, s.hasPassword = p.TakeSecret(prefix + ".password")
	location, where, located := p.Take(prefix + ".location")
	text, textWhere, inlined := p.TakeSecret(inline)
	switch strings.ToUpper(kind) {
	case "", "JKS", "PKCS12":
	case "PEM":
		s.pem = true
	default:
		return nil, &client.Error{What: fmt.Sprintf("%s.type is %q, which is not supported", prefix, kind), Where: kindWhere, Fix: "it is one of JKS, PKCS12, PEM"}
	}
	switch {
	case location != "" && text != "":
		return nil, &client.Error{What: fmt.Sprintf("%s.location and %s are both set", prefix, inline), Where: where + ", " + textWhere, Fix: "leave one of them out"}
	case text != "" && !s.pem:
		return nil, &client.Error{What: fmt.Sprintf("%s is set, but %s.type is not PEM", inline, prefix), Where: textWhere, Fix: "set " + prefix + ".type=PEM"}
	case text != "":
		s.data, s.where = []byte(text), fmt.Sprintf("%s, %s", inline, textWhere)
		return s, nil
	case location == "" && (located || inlined): // perhaps of a variable that is not set: not the same as no store
		return nil, &client.Error{What: fmt.Sprintf("%s.location or %s is set to nothing", prefix, inline), Where: cmp.Or(where, textWhere), Fix: "name the store, or take the line out"}
	case location == "":
		return nil, nil
	}
	s.where = fmt.Sprintf("%s (%s.location, %s)", location, prefix, where)
	var err error
	if s.data, err = readStore(location); err != nil {
		return nil, &client.Error{What: "cannot read " + prefix + ".location", Where: s.where + ": " + disk.Reason(err), Err: err}
	}
	return s, nil
}

func readStore(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxStoreBytes+1))
	if err == nil && len(b) > maxStoreBytes {
		err = fmt.Errorf("it has more than %d bytes", maxStoreBytes)
	}
	return b, err
}

// failed is an error about what is in the store.
func (s *store) failed(err error) error {
	e := &client.Error{What: fmt.Sprintf("cannot use %s: %v", s.prefix, err), Where: s.where}
	switch {
	case errors.Is(err, errPassword) && !s.hasPassword:
		e.Fix = "set " + s.prefix + ".password"
	case errors.Is(err, errPassword):
		e.Fix = "look at " + s.prefix + ".password"
	case !s.pem && bytes.Contains(s.data, []byte("-----BEGIN ")):
		e.Fix = "it is a PEM file: set " + s.prefix + ".type=PEM"
	}
	return e
}

var errPassword = errors.New("the password does not open it")

// isJKS tells the two kinds of binary store apart, as Java does whichever the type says.
func (s *store) isJKS() bool {
	return len(s.data) >= 4 && binary.BigEndian.Uint32(s.data) == jksMagic
}

// takeTrustStore takes the certificates that are trusted. The pool is nil if there is no such setting.
func takeTrustStore(p *client.Properties) (*x509.CertPool, error) {
	s, err := takeStore(p, "ssl.truststore", "ssl.truststore.certificates")
	if s == nil || err != nil {
		return nil, err
	}
	certificates, err := s.trusted()
	if err == nil && len(certificates) == 0 {
		err = errors.New("there is no certificate in it")
	}
	if err != nil {
		return nil, s.failed(err)
	}
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool, nil
}

func (s *store) trusted() ([]*x509.Certificate, error) {
	switch {
	case s.pem:
		return pemCertificates(s.data)
	case s.isJKS():
		entries, err := readJKS(s.data, s.password, s.hasPassword)
		var out []*x509.Certificate
		for _, e := range entries {
			out = append(out, e.chain[:min(1, len(e.chain))]...) // of a key: its own certificate
		}
		return out, err
	}
	certificates, err := pkcs12.DecodeTrustStore(s.data, s.password)
	if err == nil {
		return certificates, nil
	}
	// One with a key in it.
	if _, own, _, chainErr := pkcs12.DecodeChain(s.data, s.password); chainErr == nil {
		return []*x509.Certificate{own}, nil
	}
	return nil, pkcs12Reason(err)
}

func pkcs12Reason(err error) error {
	if errors.Is(err, pkcs12.ErrIncorrectPassword) || errors.Is(err, pkcs12.ErrDecryption) {
		return errPassword
	}
	return fmt.Errorf("it is neither JKS nor a PKCS12 store that can be read: %w", err)
}

// takeKeyStore takes the certificate of the client. It is nil if there is no such setting.
func takeKeyStore(p *client.Properties) (*tls.Certificate, error) {
	keyPassword, _, hasKeyPassword := p.TakeSecret("ssl.key.password")
	s, err := takeStore(p, "ssl.keystore", "ssl.keystore.key")
	chain, chainWhere, _ := p.TakeSecret("ssl.keystore.certificate.chain")
	if s == nil || err != nil {
		if err == nil && chain != "" {
			err = &client.Error{What: "ssl.keystore.certificate.chain is set without ssl.keystore.key", Where: chainWhere}
		}
		return nil, err
	}
	if !hasKeyPassword {
		keyPassword = s.password
	}
	var c tls.Certificate
	var certificates []*x509.Certificate
	switch {
	case s.pem:
		if c.PrivateKey, err = pemKey(s.data, keyPassword); err == nil {
			certificates, err = pemCertificates(append(bytes.Clone(s.data), "\n"+chain...))
		}
	case s.isJKS():
		c.PrivateKey, certificates, err = jksKey(s.data, s.password, keyPassword, s.hasPassword)
	default:
		var own *x509.Certificate
		c.PrivateKey, own, certificates, err = pkcs12.DecodeChain(s.data, s.password)
		if certificates = append([]*x509.Certificate{own}, certificates...); err != nil {
			err = pkcs12Reason(err)
		}
	}
	if err == nil && len(certificates) == 0 {
		err = errors.New("there is no certificate for the key in it")
	}
	if err == nil {
		err = matches(c.PrivateKey, certificates[0])
	}
	if err != nil {
		return nil, s.failed(err)
	}
	for _, certificate := range certificates {
		c.Certificate = append(c.Certificate, certificate.Raw)
	}
	return &c, nil
}

// matches checks that the certificate is for the key.
func matches(key crypto.PrivateKey, certificate *x509.Certificate) error {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return errors.New("its key is of a kind that signs nothing")
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(certificate.PublicKey) {
		return errors.New("its first certificate is not for the key")
	}
	return nil
}

// pemOnLines ends lines where PEM has them: in a property whose lines end with a backslash blanks stand there, which Kafka
// takes as well.
func pemOnLines(data []byte) []byte {
	return pemBlock.ReplaceAllFunc(data, func(block []byte) []byte {
		parts := pemBlock.FindSubmatch(block)
		return fmt.Appendf(nil, "\n%s\n%s\n%s\n", parts[1], bytes.Join(bytes.Fields(parts[2]), []byte("\n")), parts[3])
	})
}

var pemBlock = regexp.MustCompile(`(-----BEGIN [A-Z0-9 ]+-----)([A-Za-z0-9+/=\s]+)(-----END [A-Z0-9 ]+-----)`)

func pemCertificates(data []byte) ([]*x509.Certificate, error) {
	data = pemOnLines(data)
	var out []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// pemKey reads a key in PKCS#8, the form that Kafka takes.
func pemKey(data []byte, password string) (crypto.PrivateKey, error) {
	data = pemOnLines(data)
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "PRIVATE KEY":
			return x509.ParsePKCS8PrivateKey(block.Bytes)
		case block.Type == "ENCRYPTED PRIVATE KEY":
			if password == "" {
				return nil, errors.New("its key is encrypted, and ssl.key.password is not set")
			}
			return decryptPKCS8(block.Bytes, password)
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil, fmt.Errorf("its key is a %s and not in PKCS#8: openssl pkcs8 -topk8 makes one", block.Type)
		}
	}
	return nil, errors.New("there is no private key in it")
}
