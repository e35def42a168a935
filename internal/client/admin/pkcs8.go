package admin

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// algorithm is an AlgorithmIdentifier.
type algorithm struct {
	ID         asn1.ObjectIdentifier
	Parameters asn1.RawValue `asn1:"optional"`
}

var (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"

	pbkdf2Hashes = map[string]func() hash.Hash{
		"1.2.840.113549.2.7":  sha1.New,
		"1.2.840.113549.2.9":  sha256.New,
		"1.2.840.113549.2.10": sha512.New384,
		"1.2.840.113549.2.11": sha512.New,
	}
	aesKeyBytes = map[string]int{
		"2.16.840.1.101.3.4.1.2":  16, // AES in CBC mode
		"2.16.840.1.101.3.4.1.22": 24,
		"2.16.840.1.101.3.4.1.42": 32,
	}
)

// maxIterations keeps a damaged key from keeping a command busy: some seconds' work.
const maxIterations = 1 << 24

// decryptPKCS8 opens an EncryptedPrivateKeyInfo (RFC 5958) with PBES2, PBKDF2 and AES (RFC 8018), as openssl and Java make
// them.
func decryptPKCS8(der []byte, password string) (crypto.PrivateKey, error) {
	var info struct {
		Algorithm algorithm
		Data      []byte
	}
	var scheme struct{ Derivation, Encryption algorithm }
	var derivation struct {
		Salt       []byte
		Iterations int
		KeyLength  int       `asn1:"optional"`
		Hash       algorithm `asn1:"optional"`
	}
	var iv []byte
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, fmt.Errorf("its key is damaged: %w", err)
	}
	if info.Algorithm.ID.String() != oidPBES2 {
		return nil, fmt.Errorf("its key is encrypted by %v, which is not supported: openssl pkcs8 -topk8 -v2 aes-256-cbc encrypts it anew", info.Algorithm.ID)
	}
	if err := unmarshalAll(info.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, err
	}
	if scheme.Derivation.ID.String() != oidPBKDF2 || aesKeyBytes[scheme.Encryption.ID.String()] == 0 {
		return nil, errors.New("its key is encrypted in a way that is not supported: openssl pkcs8 -topk8 -v2 aes-256-cbc encrypts it anew")
	}
	if err := errors.Join(unmarshalAll(scheme.Derivation.Parameters.FullBytes, &derivation), unmarshalAll(scheme.Encryption.Parameters.FullBytes, &iv)); err != nil {
		return nil, err
	}
	newHash := sha1.New
	if derivation.Hash.ID != nil {
		newHash = pbkdf2Hashes[derivation.Hash.ID.String()]
	}
	if newHash == nil || derivation.Iterations < 1 || derivation.Iterations > maxIterations || len(iv) != aes.BlockSize || len(info.Data) == 0 || len(info.Data)%aes.BlockSize != 0 {
		return nil, errors.New("its key is encrypted in a way that is not supported, or damaged")
	}
	key, err := pbkdf2.Key(newHash, password, derivation.Salt, derivation.Iterations, aesKeyBytes[scheme.Encryption.ID.String()])
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, len(info.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, info.Data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > aes.BlockSize || !bytes.Equal(plain[len(plain)-padding:], bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil, errors.New("ssl.key.password does not open its key")
	}
	private, err := x509.ParsePKCS8PrivateKey(plain[:len(plain)-padding])
	if err != nil {
		return nil, errors.New("ssl.key.password does not open its key")
	}
	return private, nil
}

func unmarshalAll(der []byte, target any) error {
	if rest, err := asn1.Unmarshal(der, target); err != nil || len(rest) > 0 {
		return errors.New("its key is damaged")
	}
	return nil
}
