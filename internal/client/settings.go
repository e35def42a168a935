package client

import (
	"errors"
	"time"
)

// Settings are what a client can be told in a properties file, as Kafka's Java clients have it.
type Settings struct {
	ClientID        string        // client.id
	RequestTimeout  time.Duration // request.timeout.ms: for each answer
	Timeout         time.Duration // default.api.timeout.ms: for all that a command does
	ConnectTimeout  time.Duration // socket.connection.setup.timeout.ms: for each connection
	RetryBackoff    time.Duration // retry.backoff.ms: after the first try; doubled after each other
	RetryBackoffMax time.Duration // retry.backoff.max.ms
}

// DefaultSettings are Kafka's, but for a name that tells who asks.
func DefaultSettings() Settings {
	return Settings{
		ClientID:        "kstorage",
		RequestTimeout:  30 * time.Second,
		Timeout:         60 * time.Second,
		ConnectTimeout:  10 * time.Second,
		RetryBackoff:    100 * time.Millisecond,
		RetryBackoffMax: time.Second,
	}
}

// ReadSettings reads a properties file. unknown has the keys in it that no client knows. Errors: the file cannot be
// read, or a value is none that works here.
func ReadSettings(path string) (s Settings, unknown []string, err error) {
	p, err := ReadProperties(path)
	if err != nil {
		return s, nil, err
	}
	return p.plaintext()
}

// plaintext takes the settings of a client that knows no kind of security.
func (p *Properties) plaintext() (s Settings, unknown []string, err error) {
	s, err = p.Settings()
	if value, where, ok := p.Take("security.protocol"); ok {
		err = errors.Join(err, checkSecurityProtocol(value, where))
	}
	return s, p.Unknown(), err
}
