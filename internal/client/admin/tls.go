package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"kstorage/internal/client"
)

// tlsSettings are how connections are encrypted.
type tlsSettings struct {
	roots       *x509.CertPool // nil: those of the system
	certificate *tls.Certificate
	anyName     bool // the server's certificate may be for another name
	min, max    uint16
	ciphers     []uint16 // nil: Go's
}

func takeTLS(p *client.Properties) (*tlsSettings, error) {
	s := &tlsSettings{}
	var errs [5]error
	s.roots, errs[0] = takeTrustStore(p)
	s.certificate, errs[1] = takeKeyStore(p)
	switch value, where, ok := p.Take("ssl.endpoint.identification.algorithm"); {
	case ok && value == "":
		s.anyName = true
	case ok && !strings.EqualFold(value, "https"):
		errs[2] = &client.Error{What: fmt.Sprintf("ssl.endpoint.identification.algorithm is %q", value), Where: where, Fix: "it is https, or empty: then the server's certificate may be for any name"}
	}
	s.min, s.max, errs[3] = takeVersions(p)
	s.ciphers, errs[4] = takeCiphers(p)
	return s, errors.Join(errs[:]...)
}

// versions are the protocols that Go has.
var versions = map[string]uint16{"TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}

func takeVersions(p *client.Properties) (lowest, highest uint16, err error) {
	lowest, highest = tls.VersionTLS12, tls.VersionTLS13
	value, where, ok := p.Take("ssl.enabled.protocols")
	if !ok || value == "" {
		return lowest, highest, nil
	}
	var enabled []uint16
	for _, name := range strings.Split(value, ",") {
		version, ok := versions[strings.TrimSpace(name)]
		if !ok {
			return 0, 0, &client.Error{What: fmt.Sprintf("ssl.enabled.protocols has %q, which is not supported", strings.TrimSpace(name)), Where: where, Fix: "TLSv1.2 and TLSv1.3 are the ones that Kafka takes by default"}
		}
		enabled = append(enabled, version)
	}
	return slices.Min(enabled), slices.Max(enabled), nil
}

// takeCiphers takes those of TLS 1.2; those of TLS 1.3 are always on.
func takeCiphers(p *client.Properties) ([]uint16, error) {
	value, where, ok := p.Take("ssl.cipher.suites")
	if !ok || value == "" {
		return nil, nil
	}
	var out []uint16
	suites := slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites())
	for _, name := range strings.Split(value, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(suites, func(s *tls.CipherSuite) bool { return s.Name == name })
		if i < 0 {
			return nil, &client.Error{What: fmt.Sprintf("ssl.cipher.suites has %q, which is not supported", name), Where: where, Fix: "leave it out to take those that are secure today"}
		}
		out = append(out, suites[i].ID)
	}
	return out, nil
}

// handshakeError is why a connection could not be encrypted.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS: " + strings.TrimPrefix(e.err.Error(), "tls: ") }
func (e *handshakeError) Unwrap() error { return e.err }

// dial makes a connection, within the time for one.
func (s *Settings) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.ConnectTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || s.tls == nil {
		return conn, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		conn.Close()
		return nil, err
	}
	encrypted := tls.Client(conn, s.tls.config(host))
	if err := encrypted.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &handshakeError{err}
	}
	return encrypted, nil
}

func (s *tlsSettings) config(host string) *tls.Config {
	c := &tls.Config{
		ServerName: host,
		// verify does it: Go's own check knows no common names, and none without names.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return s.verify(host, state) },
		MinVersion:         s.min,
		MaxVersion:         s.max,
		CipherSuites:       s.ciphers,
	}
	if s.certificate != nil {
		// Whatever the server asks for: Kafka's brokers don't name the authorities that they trust in full.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.certificate, nil }
	}
	return c
}

// verify checks the server's certificate as a Java client does: the chain, and the name. A certificate without names for
// hosts is for its common name, which many clusters still have.
func (s *tlsSettings) verify(host string, state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	options := x509.VerifyOptions{Roots: s.roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(options); err != nil {
		return err
	}
	if s.anyName || len(leaf.DNSNames) == 0 && net.ParseIP(host) == nil && matchesCommonName(leaf.Subject.CommonName, host) {
		return nil
	}
	return leaf.VerifyHostname(host)
}

// matchesCommonName compares as for a name of a host: the first label may be a *.
func matchesCommonName(name, host string) bool {
	return (&x509.Certificate{DNSNames: []string{name}}).VerifyHostname(host) == nil
}
