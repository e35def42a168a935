package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// Sample is a value of a metric, as the last of its time.
type Sample struct {
	Name, Unit string
	Monotonic  bool    // a sum that only grows
	Resource   []Label // of the client, the same for many samples
	Labels     []Label
	Value      float64
}

// Label is a name and a value that tell samples of one metric apart.
type Label struct{ Name, Value string }

// Samples reads MetricsData of OTLP, the Protocol Buffers of OpenTelemetry: the values of gauges and sums, which are all
// that Kafka's clients send. Other kinds of metrics are passed over. After an error nothing follows.
//
//	MetricsData  1 ResourceMetrics*
//	             ResourceMetrics  1 Resource, 2 ScopeMetrics*
//	                              Resource      1 KeyValue*
//	                              ScopeMetrics  2 Metric*
//	                                            Metric  1 name, 3 unit, 5 Gauge, 7 Sum
//	                                                    Gauge, Sum  1 NumberDataPoint*, 3 is monotonic (Sum)
//	                                                                NumberDataPoint  4 double, 6 int, 7 KeyValue*
//	KeyValue     1 key, 2 AnyValue: 1 string, 2 bool, 3 int, 4 double
func Samples(data []byte) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		err := each(data, 1, func(resourceMetrics []byte) error {
			resource, err := attributesOf(resourceMetrics)
			if err != nil {
				return err
			}
			return each(resourceMetrics, 2, func(scope []byte) error {
				return each(scope, 2, func(metric []byte) error { return samplesOf(metric, resource, yield) })
			})
		})
		if err != nil && err != errEnough {
			yield(Sample{}, err)
		}
	}
}

// check reads all samples and returns what is wrong with them.
func check(data []byte) error {
	for _, err := range Samples(data) {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxLabels are how many labels a sample may have, and a client: those of OpenTelemetry by default. An empty one takes two
// bytes of a message, and sixteen times of that in memory.
const maxLabels = 128

var (
	errOTLP   = errors.New("not MetricsData of OTLP")
	errLabels = fmt.Errorf("more than %d labels", maxLabels)
	errEnough = errors.New("enough") // the consumer wants no more samples
)

// Numbers of fields that are used by what they are for.
const (
	gaugeField     = 5
	sumField       = 7
	doubleField    = 4
	intField       = 6
	pointLabels    = 7
	monotonicField = 3
)

func attributesOf(resourceMetrics []byte) (labels []Label, err error) {
	err = each(resourceMetrics, 1, func(resource []byte) error {
		return each(resource, 1, func(keyValue []byte) error { return appendLabel(&labels, keyValue) })
	})
	return labels, err
}

func samplesOf(metric []byte, resource []Label, yield func(Sample, error) bool) error {
	s := Sample{Resource: resource}
	err := fields(metric, func(f field) (err error) {
		switch f.number {
		case 1:
			s.Name, err = f.text()
		case 3:
			s.Unit, err = f.text()
		case sumField:
			err = fields(f.bytes, func(g field) error {
				s.Monotonic = s.Monotonic || g.number == monotonicField && g.value != 0
				return nil
			})
		}
		return err
	})
	if err != nil {
		return err
	}
	return fields(metric, func(f field) error { // its name may stand behind its points
		if f.number != gaugeField && f.number != sumField {
			return nil
		}
		return each(f.bytes, 1, func(point []byte) error {
			s.Labels, s.Value = nil, 0
			err := fields(point, func(f field) error {
				switch f.number {
				case doubleField:
					s.Value = math.Float64frombits(f.value)
				case intField:
					s.Value = float64(int64(f.value))
				case pointLabels:
					return appendLabel(&s.Labels, f.bytes)
				}
				return nil
			})
			if err == nil && !yield(s, nil) {
				err = errEnough
			}
			return err
		})
	})
}

func appendLabel(labels *[]Label, keyValue []byte) error {
	if len(*labels) == maxLabels {
		return errLabels
	}
	var l Label
	err := fields(keyValue, func(f field) (err error) {
		switch f.number {
		case 1:
			l.Name, err = f.text()
		case 2:
			l.Value, err = anyValue(f.bytes)
		}
		return err
	})
	*labels = append(*labels, l)
	return err
}

func anyValue(b []byte) (text string, err error) {
	err = fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			text, err = f.text()
		case 2:
			text = strconv.FormatBool(f.value != 0)
		case 3:
			text = strconv.FormatInt(int64(f.value), 10)
		case 4:
			text = strconv.FormatFloat(math.Float64frombits(f.value), 'g', -1, 64)
		}
		return err
	})
	return text, err
}

// field is a field of a message: a number, or bytes.
type field struct {
	number uint64
	value  uint64
	bytes  []byte
}

func (f field) text() (string, error) {
	if !utf8.Valid(f.bytes) {
		return "", errOTLP
	}
	return string(f.bytes), nil
}

// each calls use with each field of a message that has the number and is a message.
func each(message []byte, number uint64, use func([]byte) error) error {
	return fields(message, func(f field) error {
		if f.number != number {
			return nil
		}
		return use(f.bytes)
	})
}

// fields calls use with each field of a message.
func fields(message []byte, use func(field) error) error {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 || key>>3 == 0 {
			return errOTLP
		}
		message = message[n:]
		f := field{number: key >> 3}
		size := 0
		switch key & 7 {
		case 0: // varint
			if f.value, size = binary.Uvarint(message); size <= 0 {
				return errOTLP
			}
		case 1:
			if size = 8; len(message) < size {
				return errOTLP
			}
			f.value = binary.LittleEndian.Uint64(message)
		case 2: // length, bytes
			length, n := binary.Uvarint(message)
			if n <= 0 || length > uint64(len(message)-n) {
				return errOTLP
			}
			size = n + int(length)
			f.bytes = message[n:size]
		case 5:
			if size = 4; len(message) < size {
				return errOTLP
			}
			f.value = uint64(binary.LittleEndian.Uint32(message))
		default:
			return errOTLP
		}
		message = message[size:]
		if err := use(f); err != nil {
			return err
		}
	}
	return nil
}
