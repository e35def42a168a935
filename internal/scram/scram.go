// Package scram makes the SCRAM credentials that format writes into the bootstrap metadata (KIP-900): it reads the
// arguments of --add-scram and derives the keys of RFC 5802 from them.
//
//	SCRAM-SHA-256=[name=alice,password=secret]
//	SCRAM-SHA-512=[name="alice",iterations=8192,salt="c2FsdA==",saltedpassword="mT0y…"]
//
// An argument is a mechanism, an equals sign and a list of key=value fields in brackets; blanks around the whole are
// dropped, blanks inside count.
//
//	name            the user, required
//	password        the password, or
//	saltedpassword  what PBKDF2 made of it, in base64; needs a salt, and is not looked at if there is a password
//	salt            in base64 with or without padding; 32 random bytes if not given
//	iterations      4096 (the default) to 16384
//
// The list is split at every comma, so that no value can hold one; commas at its end are dropped. A value may stand in
// double quotes, of which one pair is taken off; there are no escapes. The last one of a key given twice counts.
// Names and passwords are taken as they are: as in Kafka there is no SASLprep.
//
// Parse is cheap and makes all checks, Derive costs milliseconds; so a caller can check everything before it pays. No
// error holds any part of an argument, for a password with a comma or an equals sign can stand anywhere in it, and
// neither Argument nor Credential prints what is secret.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"kstorage/internal/javatext"
)

// Mechanism is a SCRAM mechanism under its number in UserScramCredentialRecord.
type Mechanism int8

// The mechanisms that Kafka has.
const (
	SHA256 Mechanism = 1
	SHA512 Mechanism = 2
)

// String returns the name, such as SCRAM-SHA-256.
func (m Mechanism) String() string {
	switch m {
	case SHA256:
		return "SCRAM-SHA-256"
	case SHA512:
		return "SCRAM-SHA-512"
	default:
		return "mechanism " + strconv.Itoa(int(m))
	}
}

// hash returns the constructor of m's hash and the length of its sums.
func (m Mechanism) hash() (func() hash.Hash, int) {
	if m == SHA512 {
		return sha512.New, sha512.Size
	}
	return sha256.New, sha256.Size
}

const (
	minIterations = 4096
	maxIterations = 16384
	saltBytes     = 32
	maxNameBytes  = math.MaxInt16 // of a string in a record
)

// Argument is a checked argument.
type Argument struct {
	mechanism      Mechanism
	name           string
	iterations     int32
	salt           secret // nil: a random one
	password       secret // nil: saltedPassword counts
	saltedPassword secret
}

// Mechanism returns the mechanism.
func (a Argument) Mechanism() Mechanism { return a.mechanism }

// Name returns the user's name.
func (a Argument) Name() string { return a.name }

// Iterations returns the number of iterations of PBKDF2.
func (a Argument) Iterations() int32 { return a.iterations }

// secret keeps bytes from being printed. A Format method would not do: fmt calls none on what stands in a field that
// isn't exported, and follows pointers there under some verbs. Of a func it prints the address, whatever the verb.
type secret func() []byte

func hide(b []byte) secret { return func() []byte { return b } }

// Parse reads and checks an argument. Errors are about its form only and hold no part of it.
func Parse(arg string) (Argument, error) {
	// Unlike Kafka: it replaces what isn't UTF-8, and so stores another password than was meant.
	if !utf8.ValidString(arg) {
		return Argument{}, errors.New("it is not UTF-8")
	}
	mechanism, list, ok := strings.Cut(javatext.Trim(arg), "=")
	if !ok {
		return Argument{}, errors.New("there is no equals sign; the form is SCRAM-SHA-256=[name=NAME,password=PASSWORD]")
	}
	a := Argument{iterations: minIterations}
	switch mechanism {
	case SHA256.String():
		a.mechanism = SHA256
	case SHA512.String():
		a.mechanism = SHA512
	default:
		return Argument{}, errors.New("what stands before the first equals sign is neither SCRAM-SHA-256 nor SCRAM-SHA-512")
	}
	list, opened := strings.CutPrefix(list, "[")
	list, closed := strings.CutSuffix(list, "]")
	if !opened || !closed {
		return Argument{}, fmt.Errorf("the fields do not stand in brackets; the form is %v=[name=NAME,password=PASSWORD]", a.mechanism)
	}
	values, err := parseFields(list)
	if err != nil {
		return Argument{}, err
	}
	if err := a.take(values); err != nil {
		return Argument{}, err
	}
	return a, nil
}

// The keys of the fields.
const (
	keyName           = "name"
	keySalt           = "salt"
	keyIterations     = "iterations"
	keyPassword       = "password"
	keySaltedPassword = "saltedpassword"
)

// parseFields splits the list between the brackets.
func parseFields(list string) (map[string]string, error) {
	values := make(map[string]string)
	list = strings.TrimRight(list, ",")
	if list == "" {
		return values, nil
	}
	for i, field := range strings.Split(list, ",") {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return nil, fmt.Errorf("field %d has no equals sign; a comma separates fields, so no value can hold one", i+1)
		}
		switch key {
		case keyName, keySalt, keyIterations, keyPassword, keySaltedPassword:
		default:
			return nil, fmt.Errorf("field %d is none of name, salt, iterations, password, saltedpassword; "+
				"a comma separates fields, so no value can hold one, and a blank behind it belongs to the next key", i+1)
		}
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		values[key] = value
	}
	return values, nil
}

// take checks the values by key and stores them in a.
func (a *Argument) take(values map[string]string) error {
	name, ok := values[keyName]
	switch {
	case !ok:
		return errors.New("there is no name")
	case len(name) > maxNameBytes:
		return fmt.Errorf("the name has more than %d bytes", maxNameBytes)
	}
	a.name = name

	if text, ok := values[keySalt]; ok {
		salt, err := decodeBase64(text)
		if err != nil {
			return errors.New("the salt is not base64 of the standard alphabet")
		}
		a.salt = hide(salt)
	}
	if password, ok := values[keyPassword]; ok {
		if password == "" {
			return errors.New("the password is empty")
		}
		a.password = hide([]byte(password))
	} else if text, ok := values[keySaltedPassword]; ok {
		if a.salt == nil {
			return errors.New("there is no salt; a saltedpassword needs the one that it was made with")
		}
		salted, err := decodeBase64(text)
		if err != nil {
			return errors.New("the saltedpassword is not base64 of the standard alphabet")
		}
		if len(salted) == 0 {
			return errors.New("the saltedpassword is empty")
		}
		a.saltedPassword = hide(salted)
	} else {
		return errors.New("there is neither a password nor a saltedpassword")
	}

	if text, ok := values[keyIterations]; ok {
		n, err := javatext.ParseInt(text, 32)
		if err != nil {
			return errors.New("the iterations are not a number of 32 bits")
		}
		if n < minIterations || n > maxIterations {
			return fmt.Errorf("the iterations are not between %d and %d", minIterations, maxIterations)
		}
		a.iterations = int32(n)
	}
	return nil
}

// decodeBase64 decodes the standard alphabet as Java does: padding is optional, if there it must be right, and the bits
// of the last character that stand for nothing are not looked at.
func decodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("line break") // the standard decoder skips them
	}
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(s, "=") {
		encoding = base64.StdEncoding
	}
	return encoding.DecodeString(s)
}

// Credential is what UserScramCredentialRecord holds of a user.
type Credential struct {
	Mechanism  Mechanism
	Name       string
	Iterations int32
	salt       secret
	storedKey  secret
	serverKey  secret
}

// Salt returns the salt. The slice is the credential's.
func (c Credential) Salt() []byte { return c.salt() }

// StoredKey returns the key against which a client's proof is checked. The slice is the credential's.
func (c Credential) StoredKey() []byte { return c.storedKey() }

// ServerKey returns the key with which the server proves itself. The slice is the credential's.
func (c Credential) ServerKey() []byte { return c.serverKey() }

// Derive computes the credential (RFC 5802, section 3). A salt that was not given is 32 bytes from random.
// Errors: those of random.
// Unlike Kafka: its random salt is the text of a number.
func (a Argument) Derive(random io.Reader) (Credential, error) {
	newHash, size := a.mechanism.hash()
	salt := a.salt
	if salt == nil {
		drawn := make([]byte, saltBytes)
		if _, err := io.ReadFull(random, drawn); err != nil {
			return Credential{}, fmt.Errorf("draw a SCRAM salt: %w", err)
		}
		salt = hide(drawn)
	}
	var salted []byte
	if a.password == nil {
		salted = a.saltedPassword()
	} else {
		var err error
		if salted, err = pbkdf2.Key(newHash, string(a.password()), salt(), int(a.iterations), size); err != nil {
			return Credential{}, fmt.Errorf("derive %v: %w", a.mechanism, err)
		}
	}
	storedKey := newHash()
	storedKey.Write(sum(newHash, salted, "Client Key"))
	return Credential{
		Mechanism:  a.mechanism,
		Name:       a.name,
		Iterations: a.iterations,
		salt:       salt,
		storedKey:  hide(storedKey.Sum(nil)),
		serverKey:  hide(sum(newHash, salted, "Server Key")),
	}, nil
}

// sum is the HMAC of text.
func sum(newHash func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(newHash, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
