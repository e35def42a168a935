package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"kstorage/internal/config/javaprops"
)

// provider gives the texts that ${NAME:KEY} and ${NAME:PATH:KEY} stand for. from says where text came from; ok is
// false where there is no such key: then the reference stays as it is.
type provider interface {
	get(path, key string) (text, from string, ok bool, err error)
}

const (
	envProviderClass       = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
	fileProviderClass      = "org.apache.kafka.common.config.provider.FileConfigProvider"
	directoryProviderClass = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
)

// resolve replaces references to config providers in all values of the file, KIP-297 and KIP-421. A provider whose class is not
// given is none, as in Kafka, and what it would replace stays.
func (l *loader) resolve(env func(string) (string, bool)) {
	list, ok := l.given("config.providers")
	if !ok {
		return
	}
	providers := map[string]provider{}
	// Not a list as elsewhere: blanks belong to the names.
	for name := range strings.SplitSeq(list.Value, ",") {
		classKey := "config.providers." + name + ".class"
		class, ok := l.given(classKey)
		if _, known := providers[name]; known || !ok {
			continue
		}
		if p := l.newProvider(class, "config.providers."+name+".param.", env); p != nil {
			providers[name] = p
		}
	}
	for i := range l.properties {
		l.expand(&l.properties[i], providers)
	}
}

// newProvider returns nil where it has reported a problem.
func (l *loader) newProvider(class property, params string, env func(string) (string, bool)) provider {
	switch class.Value {
	case envProviderClass:
		p := envProvider{env: env}
		if pattern, ok := l.given(params + "allowlist.pattern"); ok {
			compiled, err := regexp.Compile(`\A(?:` + pattern.Value + `)\z`)
			if err != nil || strings.Contains(pattern.Value, "&&") {
				// Unlike Kafka: Java's expressions have more than Go's; rather none than another meaning.
				l.fail(pattern.Key, fmt.Sprintf("%q is no regular expression of RE2", pattern.Value), "write it without look-around, possessive quantifiers and class intersections")
				return nil
			}
			p.allow = compiled
		}
		return p
	case fileProviderClass:
		if paths, ok := l.allowedPaths(params + "allowed.paths"); ok {
			return &fileProvider{paths: paths, read: map[string]map[string]string{}}
		}
		return nil
	case directoryProviderClass:
		if paths, ok := l.allowedPaths(params + "allowed.paths"); ok {
			return directoryProvider{paths: paths}
		}
		return nil
	}
	l.fail(class.Key, fmt.Sprintf("there is no provider %q here", class.Value),
		fmt.Sprintf("the providers are %s, %s and %s", envProviderClass, fileProviderClass, directoryProviderClass))
	return nil
}

// allowedPaths returns nil where all paths are allowed.
func (l *loader) allowedPaths(key string) (paths []string, ok bool) {
	list, given := l.given(key)
	if !given || list.Value == "" {
		return nil, true
	}
	paths = []string{}
	for path := range strings.SplitSeq(strings.TrimRight(list.Value, ","), ",") {
		if !filepath.IsAbs(path) {
			l.fail(key, fmt.Sprintf("path %q is not absolute", path), "write it from the root, without blanks around the commas")
			return nil, false
		}
		if _, err := os.Stat(path); err != nil {
			l.fail(key, fmt.Sprintf("path %q: %s", path, systemReason(err)), "write a path that exists")
			return nil, false
		}
		paths = append(paths, filepath.Clean(path))
	}
	return paths, true
}

// expand replaces the references in p. From `${` to the next `}` it is one if a colon is in it; up to
// that is the name of the provider, and up to a second one the path.
func (l *loader) expand(p *property, providers map[string]provider) {
	var out strings.Builder
	var sources []string
	rest := p.Value
	for {
		before, reference, after, ok := cutReference(rest)
		if !ok {
			break
		}
		out.WriteString(before)
		rest = after
		text, from, found, err := lookup(providers, reference)
		switch {
		case err != nil:
			l.fail(p.Key, fmt.Sprintf("${%s}: %s", reference, err), "correct the reference, or what it refers to")
			return
		case !found:
			text = "${" + reference + "}"
		case !slices.Contains(sources, from):
			sources = append(sources, from)
		}
		out.WriteString(text)
	}
	out.WriteString(rest)
	p.resolved = out.String()
	p.from = strings.Join(sources, ", ")
}

func cutReference(text string) (before, reference, after string, ok bool) {
	start := strings.Index(text, "${")
	if start < 0 {
		return "", "", "", false
	}
	length := strings.IndexByte(text[start:], '}')
	if length < 0 {
		return "", "", "", false
	}
	return text[:start], text[start+2 : start+length], text[start+length+1:], true
}

func lookup(providers map[string]provider, reference string) (text, from string, found bool, err error) {
	name, key, hasColon := strings.Cut(reference, ":")
	p, known := providers[name]
	if !hasColon || !known {
		return "", "", false, nil
	}
	path, rest, hasPath := strings.Cut(key, ":")
	if hasPath {
		return p.get(path, rest)
	}
	return p.get("", key)
}

// unresolved says what became of a reference that still stands in a value.
func (l *loader) unresolved(p property) string {
	_, reference, _, ok := cutReference(p.resolved)
	if !ok {
		return ""
	}
	if name, _, hasColon := strings.Cut(reference, ":"); hasColon && !l.Has("config.providers."+name+".class") {
		return fmt.Sprintf("${%s} is not replaced, as there is no config provider %q", reference, name)
	}
	return fmt.Sprintf("${%s} is not replaced, as nothing of that name was found", reference)
}

// envProvider gives the environment variables whose whole names match allow (nil: all).
type envProvider struct {
	env   func(string) (string, bool)
	allow *regexp.Regexp
}

func (p envProvider) get(path, key string) (text, from string, ok bool, err error) {
	if path != "" {
		return "", "", false, errors.New("an environment variable has no path")
	}
	if p.allow != nil && !p.allow.MatchString(key) {
		return "", "", false, nil
	}
	text, ok = p.env(key)
	return text, "environment variable " + key, ok, nil
}

// fileProvider gives the properties of UTF-8 files below paths (nil: anywhere).
type fileProvider struct {
	paths []string
	read  map[string]map[string]string // by path: a file is read once
}

func (p *fileProvider) get(path, key string) (text, from string, ok bool, err error) {
	path, allowed := allowedPath(p.paths, path)
	if !allowed {
		return "", "", false, nil
	}
	properties, ok := p.read[path]
	if !ok {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", "", false, fmt.Errorf("%s: %s", path, systemReason(err))
		}
		if !utf8.Valid(b) {
			return "", "", false, fmt.Errorf("%s is not in UTF-8", path)
		}
		lines, err := javaprops.ParseText(string(b))
		if err != nil {
			return "", "", false, fmt.Errorf("%s %w", path, err)
		}
		properties = map[string]string{}
		for _, line := range lines {
			properties[line.Key] = line.Value
		}
		p.read[path] = properties
	}
	text, ok = properties[key]
	return text, "file " + path, ok, nil
}

// directoryProvider gives the contents of the plain files in directories below paths (nil: anywhere).
type directoryProvider struct{ paths []string }

func (p directoryProvider) get(path, key string) (text, from string, ok bool, err error) {
	path, allowed := allowedPath(p.paths, path)
	if !allowed || key == "" || strings.ContainsRune(key, filepath.Separator) {
		return "", "", false, nil
	}
	file := filepath.Join(path, key)
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return "", "", false, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", "", false, fmt.Errorf("%s: %s", file, systemReason(err))
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), "file " + file, true, nil
}

// allowedPath returns the path to read, and whether a provider that is limited to paths may.
func allowedPath(paths []string, path string) (string, bool) {
	if path == "" {
		return "", false
	}
	if paths == nil {
		return path, true
	}
	path = filepath.Clean(path)
	return path, slices.ContainsFunc(paths, func(allowed string) bool {
		rest, ok := strings.CutPrefix(path, allowed)
		return ok && (rest == "" || rest[0] == filepath.Separator || strings.HasSuffix(allowed, string(filepath.Separator)))
	})
}
