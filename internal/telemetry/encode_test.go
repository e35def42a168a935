package telemetry

import (
	"encoding/binary"
	"math"
)

// message encodes a field that is a message, or text.
func message(number int, parts ...[]byte) []byte {
	var content []byte
	for _, p := range parts {
		content = append(content, p...)
	}
	b := binary.AppendUvarint(nil, uint64(number<<3|2))
	b = binary.AppendUvarint(b, uint64(len(content)))
	return append(b, content...)
}

// metricsData has one resource, with the attribute rack.
func metricsData(metrics ...[]byte) []byte {
	return message(1, message(2, metrics...), message(1, keyValue(1, "rack", "r")))
}

func metric(name string, values []byte) []byte { return message(2, values, message(1, []byte(name))) }

func gauge(points ...[]byte) []byte { return message(gaugeField, points...) }

func sum(points ...[]byte) []byte {
	return message(sumField, append(points, []byte{monotonicField << 3, 1})...)
}

func point(value float64, label ...string) []byte {
	double := binary.LittleEndian.AppendUint64([]byte{doubleField<<3 | 1}, math.Float64bits(value))
	if len(label) == 0 {
		return message(1, double)
	}
	return message(1, double, keyValue(pointLabels, label[0], label[1]))
}

func keyValue(number int, name, value string) []byte {
	return message(number, message(1, []byte(name)), message(2, message(1, []byte(value))))
}
