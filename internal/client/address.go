package client

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ParseBootstrap reads a list of addresses, host:port with commas between them, as bootstrap.servers has them. A
// protocol in front (PLAINTEXT://) is dropped, as Kafka's clients do. option names where the list stands, for errors.
func ParseBootstrap(list, option string) ([]string, error) {
	var out []string
	var errs []error
	for _, entry := range strings.Split(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		address, err := parseAddress(entry)
		if err != nil {
			errs = append(errs, &Error{What: err.Error(), Where: fmt.Sprintf("%s %q", option, list), Fix: "write host:port, as in localhost:9093 or [::1]:9093"})
			continue
		}
		out = append(out, address)
	}
	if len(errs) == 0 && len(out) == 0 {
		errs = append(errs, &Error{What: option + " has no address", Fix: "write host:port, with commas between several"})
	}
	return out, errors.Join(errs...)
}

// hostCharacters are those of names and addresses that Kafka's clients take.
const hostCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-%._:"

func parseAddress(entry string) (string, error) {
	if _, behind, ok := strings.Cut(entry, "://"); ok {
		entry = behind
	}
	host, port, err := net.SplitHostPort(entry)
	if err != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool { return !strings.ContainsRune(hostCharacters, r) }) {
		return "", fmt.Errorf("%q is not an address of the form host:port", entry)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q is not the number of a port", port)
	}
	return net.JoinHostPort(host, port), nil
}
