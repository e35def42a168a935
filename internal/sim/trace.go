package sim

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// trace is a hash of all inputs and effects of a run.
type trace uint64

func (t *trace) number(n uint64) {
	x := (uint64(*t) ^ n) * 0x9e3779b97f4a7c15
	*t = trace(x ^ x>>29)
}

func (t *trace) bytes(b []byte) {
	t.number(uint64(len(b)))
	for len(b) >= 8 {
		t.number(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for _, c := range b {
		t.number(uint64(c))
	}
}

// add hashes a value: an input or an effect with all that it holds.
func (t *trace) add(value any) {
	v := reflect.ValueOf(value)
	t.number(typeHash(v.Type()))
	t.value(v)
}

func (t *trace) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			t.number(1)
		} else {
			t.number(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		t.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		t.number(v.Uint())
	case reflect.String:
		s := v.String()
		t.number(uint64(len(s)))
		for i := range len(s) {
			t.number(uint64(s[i]))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			t.value(v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			t.bytes(v.Bytes())
			return
		}
		t.number(uint64(v.Len()))
		for i := range v.Len() {
			t.value(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			t.number(v.Index(i).Uint())
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			t.number(0)
			return
		}
		if v.Kind() == reflect.Interface {
			t.number(typeHash(v.Elem().Type()))
		}
		t.value(v.Elem())
	default:
		panic(fmt.Sprintf("a trace of %s", v.Type()))
	}
}

// typeHash tells types apart, alike in each process.
func typeHash(t reflect.Type) uint64 {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	hash := uint64(14695981039346656037)
	for _, c := range []byte(t.Name()) {
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	return hash
}
