package admin

import (
	"bytes"
	"crypto"
	"crypto/sha1"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"unicode/utf16"
)

// A JKS store, numbers big-endian, texts with a length of two bytes in front, bytes with one of four:
//
//	magic  version  number of entries
//	1  alias  time  encrypted key  number of certificates  certificates      a key
//	2  alias  time  certificate                                             a trusted certificate
//	SHA-1 of the password, "Mighty Aphrodite" and all that is in front
//
// A certificate is the text X.509 (in version 2) and its bytes.
const (
	jksMagic   = 0xfeedfeed
	jksKeyTag  = 1
	jksCertTag = 2
)

type jksEntry struct {
	key   []byte // encrypted; nil: the chain is a trusted certificate
	chain []*x509.Certificate
}

var errJKS = errors.New("the JKS store is damaged")

// readJKS reads a store. Without a password nothing proves that it is as it was written.
func readJKS(data []byte, password string, hasPassword bool) ([]jksEntry, error) {
	if len(data) < sha1.Size {
		return nil, errJKS
	}
	body, sum := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	c := jksCursor{rest: body}
	c.number(4) // the magic
	version := c.number(4)
	count := c.number(4)
	var entries []jksEntry
	for i := uint64(0); i < count && c.err == nil; i++ {
		tag := c.number(4)
		c.bytes(2) // alias
		c.number(8)
		var e jksEntry
		certificates := uint64(1)
		switch tag {
		case jksKeyTag:
			e.key = c.bytes(4)
			certificates = c.number(4)
		case jksCertTag:
		default:
			return nil, errJKS
		}
		for j := uint64(0); j < certificates && c.err == nil; j++ {
			if version > 1 {
				c.bytes(2)
			}
			if raw := c.bytes(4); c.err == nil {
				certificate, err := x509.ParseCertificate(raw)
				if err != nil {
					return nil, err
				}
				e.chain = append(e.chain, certificate)
			}
		}
		entries = append(entries, e)
	}
	if c.err != nil || len(c.rest) > 0 {
		return nil, errJKS
	}
	if want := sha1.Sum(append(append(jksPassword(password), "Mighty Aphrodite"...), body...)); hasPassword && !bytes.Equal(want[:], sum) {
		return nil, errPassword
	}
	return entries, nil
}

// jksKey returns the first key of a store, and its certificates.
func jksKey(data []byte, password, keyPassword string, hasPassword bool) (crypto.PrivateKey, []*x509.Certificate, error) {
	entries, err := readJKS(data, password, hasPassword)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if e.key == nil {
			continue
		}
		plain, err := decryptJKS(e.key, keyPassword)
		if err != nil {
			return nil, nil, err
		}
		key, err := x509.ParsePKCS8PrivateKey(plain)
		return key, e.chain, err
	}
	return nil, nil, errors.New("there is no private key in it")
}

// decryptJKS opens a key: 20 bytes of salt, the key xor a chain of SHA-1 over the password and the hash before, SHA-1 of the
// password and the key.
func decryptJKS(encrypted []byte, password string) ([]byte, error) {
	var info struct {
		Algorithm algorithm
		Key       []byte
	}
	if _, err := asn1.Unmarshal(encrypted, &info); err != nil || len(info.Key) < 2*sha1.Size || !info.Algorithm.ID.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}) {
		return nil, errJKS
	}
	secret := jksPassword(password)
	hash, masked, sum := info.Key[:sha1.Size], info.Key[sha1.Size:len(info.Key)-sha1.Size], info.Key[len(info.Key)-sha1.Size:]
	plain := make([]byte, len(masked))
	for i := range masked {
		if i%sha1.Size == 0 {
			next := sha1.Sum(append(bytes.Clone(secret), hash...))
			hash = next[:]
		}
		plain[i] = masked[i] ^ hash[i%sha1.Size]
	}
	if want := sha1.Sum(append(bytes.Clone(secret), plain...)); !bytes.Equal(want[:], sum) {
		return nil, errors.New("ssl.key.password, or else ssl.keystore.password, does not open its key")
	}
	return plain, nil
}

// jksPassword is a password in UTF-16.
func jksPassword(password string) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(password)) {
		out = binary.BigEndian.AppendUint16(out, unit)
	}
	return out
}

// jksCursor remembers that the store ended too early.
type jksCursor struct {
	rest []byte
	err  error
}

func (c *jksCursor) take(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.rest)) {
		c.err, c.rest = errJKS, nil
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *jksCursor) number(size uint64) uint64 {
	var n uint64
	for _, b := range c.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// bytes reads bytes behind their length.
func (c *jksCursor) bytes(lengthSize uint64) []byte { return c.take(c.number(lengthSize)) }
