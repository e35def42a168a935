package config

import (
	"fmt"
	"strings"
)

// Int returns the value of a setting of type int or short, 0 where it has none (Null). Like the other methods of
// this kind it panics for a key that Kafka does not define or that is of another type.
func (c *Config) Int(key string) int {
	return int(c.value(key, intKind, shortKind).number)
}

// Long returns the value of a setting of type long.
func (c *Config) Long(key string) int64 {
	return c.value(key, longKind).number
}

// Double returns the value of a setting of type double. It can be NaN.
func (c *Config) Double(key string) float64 {
	return c.value(key, doubleKind).double
}

// Bool returns the value of a setting of type boolean.
func (c *Config) Bool(key string) bool {
	return c.value(key, booleanKind).number == 1
}

// String returns the value of a setting of type string or class.
func (c *Config) String(key string) string {
	return c.value(key, stringKind, classKind).text
}

// List returns the value of a setting of type list: distinct entries, none of them empty. It is the caller's not to change.
func (c *Config) List(key string) []string {
	return c.value(key, listKind).list
}

// Null reports whether a setting of any type has no value: it is not set and has no default.
func (c *Config) Null(key string) bool {
	v, _ := c.lookup(key)
	return v.null
}

// Has reports whether the file sets key, which may be one that Kafka does not define.
func (c *Config) Has(key string) bool {
	_, ok := c.given(key)
	return ok
}

// Keys returns what the file sets, also keys that Kafka does not define.
func (c *Config) Keys() []string {
	keys := make([]string, len(c.properties))
	for i, p := range c.properties {
		keys[i] = p.Key
	}
	return keys
}

// Source says where the value of a setting comes from: the line of the file, or "the default".
func (c *Config) Source(key string) string {
	p, ok := c.given(key)
	if !ok && key == "node.id" {
		p, ok = c.given("broker.id")
	}
	if !ok {
		return "the default"
	}
	if p.Line == 0 {
		return p.from + " " + p.Key
	}
	source := fmt.Sprintf("%s line %d", c.File, p.Line)
	if p.from != "" {
		source += ", from " + p.from
	}
	return source
}

func (c *Config) value(key string, kinds ...kind) value {
	v, k := c.lookup(key)
	for _, want := range kinds {
		if k == want {
			return v
		}
	}
	panic(fmt.Sprintf("config: setting %s is of another type", key))
}

func (c *Config) lookup(key string) (value, kind) {
	s, ok := find(key)
	if !ok {
		panic(fmt.Sprintf("config: no setting %q", key))
	}
	if v, ok := c.values[key]; ok {
		return v, s.kind
	}
	return s.defaultValue(), s.kind
}

// given returns the property of that key, if the file has one.
func (c *Config) given(key string) (property, bool) {
	i, ok := c.index[key]
	if !ok {
		return property{}, false
	}
	return c.properties[i], true
}

// isSecret reports whether the value of that key is not to be shown: that of a password, for a single listener too, and that
// of a key that Kafka does not define.
func isSecret(key string) bool {
	if strings.HasPrefix(key, "config.providers.") {
		return !strings.HasSuffix(key, ".class") && !strings.HasSuffix(key, ".param.allowlist.pattern") && !strings.HasSuffix(key, ".param.allowed.paths")
	}
	s, ok := find(listenerKey(key))
	return !ok || s.kind == passwordKind
}

// listenerKey takes the listener off a key like listener.name.internal.ssl.key.password.
func listenerKey(key string) string {
	if rest, ok := strings.CutPrefix(key, "listener.name."); ok {
		_, key, _ = strings.Cut(rest, ".")
	}
	return key
}
