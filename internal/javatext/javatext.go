// Package javatext is how Java reads text, for Kafka leaves to Java what blanks and numbers are.
//
//	java.lang.String.trim          Trim
//	java.lang.Short.parseShort     ParseInt, 16 bits
//	java.lang.Integer.parseInt     ParseInt, 32 bits
//	java.lang.Long.parseLong       ParseInt, 64 bits
//	java.lang.Character.digit      the digits that ParseInt takes
//
// A blank is whatever is not above U+0020, control characters too; a no-break space is none. A number is
// decimal: an ASCII sign or none, then one digit or more, of any script or of several. Nothing else may
// stand in it, no blank, underscore, point or prefix. Java looks at 16 bits at a time, so that what lies
// beyond U+FFFF is no digit.
//
// # Left out
//
// Numbers to another base, floating-point numbers, and what else Java calls white space.
package javatext

import (
	"strconv"
	"strings"
	"unicode"
)

// Trim drops the blanks at both ends of s.
func Trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// ParseInt reads a number of 16, 32 or 64 bits. Errors are those of strconv.ParseInt and hold the text.
func ParseInt(s string, bits int) (int64, error) {
	return strconv.ParseInt(strings.Map(asciiDigit, s), 10, bits)
}

// asciiDigit returns the ASCII form of a digit, and other characters as they are.
func asciiDigit(r rune) rune {
	if r <= unicode.MaxASCII {
		return r
	}
	for _, block := range unicode.Nd.R16 {
		// A script's ten digits stand together, from zero up, and blocks that touch are one range.
		if r >= rune(block.Lo) && r <= rune(block.Hi) {
			return '0' + (r-rune(block.Lo))%10
		}
	}
	return r
}
