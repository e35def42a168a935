package javaprops

// AppendKey appends s as java.util.Properties.store(Writer) writes a key: control characters with a
// name, `=`, `:`, `#`, `!`, backslash and every blank escaped, all other characters as they are, so in UTF-8.
// Parse reads ISO-8859-1, so that a text beyond ASCII does not come back as itself, in Java neither.
func AppendKey(dst []byte, s string) []byte { return appendEscaped(dst, s, true) }

// AppendValue is AppendKey for a value, of which only a blank at the start is escaped.
func AppendValue(dst []byte, s string) []byte { return appendEscaped(dst, s, false) }

func appendEscaped(dst []byte, s string, allBlanks bool) []byte {
	for i := range len(s) {
		c := s[i]
		switch c {
		case ' ':
			if i == 0 || allBlanks {
				dst = append(dst, '\\')
			}
		case '\t':
			dst, c = append(dst, '\\'), 't'
		case '\n':
			dst, c = append(dst, '\\'), 'n'
		case '\r':
			dst, c = append(dst, '\\'), 'r'
		case '\f':
			dst, c = append(dst, '\\'), 'f'
		case '=', ':', '#', '!', '\\':
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}
