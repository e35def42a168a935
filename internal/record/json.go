package record

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends the record as Kafka's dump tool prints it:
// {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"group.version","featureLevel":1}}.
func (r Record) AppendJSON(dst []byte) []byte {
	dst = append(dst, r.Message.jsonHead...)
	dst = strconv.AppendInt(dst, int64(r.Version), 10)
	dst = append(dst, `,"data":`...)
	dst = r.AppendData(dst)
	return append(dst, '}')
}

// AppendData appends the fields of the record's version alone, as a JSON object. Tagged fields at their defaults
// and unknown ones are left out, as Kafka does.
func (r Record) AppendData(dst []byte) []byte {
	return appendObject(dst, r.fields, r.values, r.Version)
}

func appendObject(dst []byte, fields []Field, values []Value, version int16) []byte {
	dst = append(dst, '{')
	first := true
	for i := range fields {
		f, v := &fields[i], &values[i]
		if version < f.Since || f.Tag != 0 && isInitial(f, v) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.jsonName...)
		dst = appendJSONValue(dst, f, v, version)
	}
	return append(dst, '}')
}

func appendJSONValue(dst []byte, f *Field, v *Value, version int16) []byte {
	switch f.Type {
	case Bool:
		return strconv.AppendBool(dst, v.num != 0)
	case Int8, Int16, Uint16, Int32, Int64:
		return strconv.AppendInt(dst, v.num, 10)
	case Float64:
		return appendDouble(dst, math.Float64frombits(uint64(v.num)))
	case UUID:
		return appendUUID(dst, v.data)
	case Struct:
		return appendObject(dst, f.Fields, v.list, version)
	}
	if v.data == nil && v.list == nil {
		return append(dst, "null"...)
	}
	switch f.Type {
	case String:
		return AppendText(dst, v.data)
	case Bytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.data)
		return append(dst, '"')
	}
	dst = append(dst, '[')
	switch f.Type {
	case Int32s:
		for i := 0; i < len(v.data); i += 4 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(int32(binary.BigEndian.Uint32(v.data[i:]))), 10)
		}
	case UUIDs:
		for i := 0; i < len(v.data); i += 16 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendUUID(dst, v.data[i:i+16])
		}
	case Strings, Structs:
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			if f.Type == Structs {
				dst = appendObject(dst, f.Fields, v.list[i].list, version)
			} else {
				dst = AppendText(dst, v.list[i].data)
			}
		}
	}
	return append(dst, ']')
}

func appendUUID(dst, id []byte) []byte {
	dst = append(dst, '"')
	dst = base64.RawURLEncoding.AppendEncode(dst, id)
	return append(dst, '"')
}

// AppendText appends text as a JSON string, escaped as Kafka's dump tool does: only what must be. Bytes that are no
// UTF-8 become U+FFFD.
func AppendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, text[start:i]...)
				dst = utf8.AppendRune(dst, utf8.RuneError)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, text[start:i]...)
		if short := strings.IndexByte("\"\\\b\f\n\r\t", c); short >= 0 {
			dst = append(dst, '\\', `"\bfnrt`[short])
		} else {
			const hex = "0123456789ABCDEF"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

// appendDouble appends x as Java prints a double (since version 19; older ones sometimes print a digit more): at least
// one digit behind the point, an exponent from 1E7 on and below 1E-3. What is no number stands in quotes.
func appendDouble(dst []byte, x float64) []byte {
	switch {
	case math.IsNaN(x):
		return append(dst, `"NaN"`...)
	case math.IsInf(x, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(x, -1):
		return append(dst, `"-Infinity"`...)
	}
	if abs := math.Abs(x); abs == 0 || abs >= 1e-3 && abs < 1e7 {
		start := len(dst)
		dst = strconv.AppendFloat(dst, x, 'f', -1, 64)
		if !strings.Contains(string(dst[start:]), ".") {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	text := strconv.FormatFloat(x, 'e', -1, 64)
	if !strings.Contains(text, ".") {
		// One digit would do; Java then takes the nearest number of two digits.
		text = strconv.FormatFloat(x, 'e', 1, 64)
	}
	mantissa, exponent, _ := strings.Cut(text, "e")
	n, _ := strconv.Atoi(exponent)
	dst = append(dst, mantissa...)
	dst = append(dst, 'E')
	return strconv.AppendInt(dst, int64(n), 10)
}
