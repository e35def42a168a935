package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// login is what a listener with SASL knows: one user, in one mechanism.
type login struct {
	mechanism      string
	user, password string
}

// loginState is how far a connection is.
type loginState struct {
	login *login
	step  int // of SaslAuthenticate, 2: logged in
	first string
	nonce string
}

// answer answers what belongs to a login, and closes what comes before its end but ApiVersions.
func (s *loginState) answer(q kmsg.Request) (answer kmsg.Response, mine bool) {
	if s.login == nil {
		return nil, false
	}
	switch q := q.(type) {
	case *kmsg.SASLHandshakeRequest:
		r := kmsg.NewPtrSASLHandshakeResponse()
		r.SupportedMechanisms = []string{s.login.mechanism}
		if q.Mechanism != s.login.mechanism {
			r.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return r, true
	case *kmsg.SASLAuthenticateRequest:
		r := kmsg.NewPtrSASLAuthenticateResponse()
		ok := false
		if s.login.mechanism == "PLAIN" {
			ok = bytes.Equal(q.SASLAuthBytes, []byte("\x00"+s.login.user+"\x00"+s.login.password))
			s.step = 2
		} else {
			r.SASLAuthBytes, ok = s.scram(string(q.SASLAuthBytes))
			s.step++
		}
		if !ok {
			r.ErrorCode = kerr.SaslAuthenticationFailed.Code
			r.ErrorMessage = kmsg.StringPtr("Authentication failed: Invalid username or password")
			s.step = 0
		}
		return r, true
	case *kmsg.ApiVersionsRequest:
		return nil, false
	}
	return nil, s.step != 2
}

// scram is the server's side of RFC 5802.
func (s *loginState) scram(message string) ([]byte, bool) {
	newHash, size := sha256.New, sha256.Size
	if s.login.mechanism == "SCRAM-SHA-512" {
		newHash, size = sha512.New, sha512.Size
	}
	const salt, iterations = "salt", 4096
	if s.step == 0 {
		bare, ok := strings.CutPrefix(message, "n,,")
		user, rest, _ := strings.Cut(strings.TrimPrefix(bare, "n="), ",")
		nonce, _, _ := strings.Cut(strings.TrimPrefix(rest, "r="), ",")
		s.nonce = nonce + "server"
		s.first = bare + "," + fmt.Sprintf("r=%s,s=%s,i=%d", s.nonce, base64.StdEncoding.EncodeToString([]byte(salt)), iterations)
		return []byte(s.first[len(bare)+1:]), ok && user == s.login.user
	}
	salted, err := pbkdf2.Key(newHash, s.login.password, []byte(salt), iterations, size)
	if err != nil {
		return nil, false
	}
	sum := func(key []byte, text string) []byte {
		h := hmac.New(func() hash.Hash { return newHash() }, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	clientKey := sum(salted, "Client Key")
	h := newHash()
	h.Write(clientKey)
	text := s.first + ",c=biws,r=" + s.nonce
	proof := make([]byte, size)
	subtle.XORBytes(proof, clientKey, sum(h.Sum(nil), text))
	want := "c=biws,r=" + s.nonce + ",p=" + base64.StdEncoding.EncodeToString(proof)
	verifier := sum(sum(salted, "Server Key"), text)
	return []byte("v=" + base64.StdEncoding.EncodeToString(verifier)), message == want
}
