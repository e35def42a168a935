package admin

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kstorage/internal/client"
)

// takeMechanism takes how to log in.
func takeMechanism(p *client.Properties) (sasl.Mechanism, error) {
	name, where, ok := p.Take("sasl.mechanism")
	if !ok {
		name, where = "GSSAPI", "sasl.mechanism is not set"
	}
	module := "ScramLoginModule"
	switch name {
	case "PLAIN":
		module = "PlainLoginModule"
	case "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		return nil, &client.Error{What: fmt.Sprintf("sasl.mechanism %s is not supported", name), Where: where, Fix: "set sasl.mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"}
	}
	form := fmt.Sprintf(`the form is sasl.jaas.config=org.apache.kafka.common.security.%s.%s required username="NAME" password="PASSWORD";`,
		strings.ToLower(strings.TrimSuffix(module, "LoginModule")), module)
	text, where, ok := p.TakeSecret("sasl.jaas.config")
	if !ok {
		return nil, &client.Error{What: "sasl.jaas.config is not set", Where: "needed by sasl.mechanism " + name, Fix: form}
	}
	entry, err := parseJAAS(text)
	switch {
	case err != nil:
		return nil, &client.Error{What: "sasl.jaas.config is not of the form of JAAS: " + err.Error(), Where: where, Fix: form}
	case !strings.HasSuffix("."+entry.module, "."+module):
		return nil, &client.Error{What: "sasl.jaas.config has a login module that does not go with sasl.mechanism " + name, Where: where, Fix: form}
	case entry.options["username"] == "":
		return nil, &client.Error{What: "sasl.jaas.config has no username", Where: where, Fix: form}
	}
	user, password := entry.options["username"], entry.options["password"]
	login := scram.Auth{User: user, Pass: password, IsToken: strings.EqualFold(entry.options["tokenauth"], "true")}
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return login.AsSha256Mechanism(), nil
	}
	return login.AsSha512Mechanism(), nil
}
