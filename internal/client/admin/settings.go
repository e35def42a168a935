package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"

	"kstorage/internal/client"
)

// Settings are what a properties file tells a client.
type Settings struct {
	client.Settings
	tls       *tlsSettings   // nil: connections are not encrypted
	mechanism sasl.Mechanism // nil: nobody logs in
}

// DefaultSettings are those without a file.
func DefaultSettings() Settings {
	s := Settings{Settings: client.DefaultSettings()}
	s.ClientID = software
	return s
}

// ReadSettings reads a properties file. unknown has the keys in it that no client knows. Errors: the file, or one that it
// names, cannot be read, a value is none that works, or a setting that protects something is not supported.
func ReadSettings(path string) (s Settings, unknown []string, err error) {
	p, err := client.ReadProperties(path)
	if err != nil {
		return s, nil, err
	}
	return settings(p)
}

func settings(p *client.Properties) (s Settings, unknown []string, err error) {
	var errs [5]error
	s.Settings, errs[0] = p.Settings()
	if id, _, _ := p.Take("client.id"); id == "" {
		s.ClientID = software
	}
	errs[1] = refuse(p)
	var encrypted, login bool
	encrypted, login, errs[2] = protocol(p)
	if encrypted {
		s.tls, errs[3] = takeTLS(p)
	}
	if login {
		s.mechanism, errs[4] = takeMechanism(p)
	}
	return s, p.Unknown(), errors.Join(errs[:]...)
}

// protocols are those of security.protocol.
var protocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

func protocol(p *client.Properties) (encrypted, login bool, err error) {
	value, where, ok := p.Take("security.protocol")
	if !ok {
		return false, false, nil
	}
	name := strings.ToUpper(value)
	if !slices.Contains(protocols, name) {
		return false, false, &client.Error{What: fmt.Sprintf("security.protocol is %q, which is no security protocol", value), Where: where, Fix: "it is one of " + strings.Join(protocols, ", ")}
	}
	return strings.HasSuffix(name, "SSL"), strings.HasPrefix(name, "SASL"), nil
}

// refused are settings that name a class or a provider of Java, or take values from elsewhere.
var refused = []string{
	"config.providers", "security.providers", "ssl.engine.factory.class", "ssl.provider",
	"sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
}

func refuse(p *client.Properties) error {
	var errs []error
	for _, key := range refused {
		if value, where, _ := p.Take(key); value != "" {
			errs = append(errs, &client.Error{What: key + " is not supported", Where: where, Fix: "use a file without it: the values themselves, and what Kafka has built in"})
		}
	}
	return errors.Join(errs...)
}
