package dump

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"kstorage/checkpoint"
	"kstorage/features"
	"kstorage/internal/record"
)

// printer appends lines to buf and writes it when it is large. The first error of w stays in err.
type printer struct {
	w    io.Writer
	json bool
	buf  []byte
	err  error

	timestamp []byte // of the batch, as it stands in the JSON of each of its records
}

const writeSize = 64 << 10

func (p *printer) line() {
	p.buf = append(p.buf, '\n')
	if len(p.buf) >= writeSize {
		p.flush()
	}
}

func (p *printer) flush() error {
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
	return p.err
}

func (p *printer) printf(format string, args ...any) { p.buf = fmt.Appendf(p.buf, format, args...) }

// number appends a number behind its key.
func (p *printer) number(key string, n int64) {
	p.buf = append(p.buf, key...)
	p.buf = strconv.AppendInt(p.buf, n, 10)
}

func (p *printer) head(path string, h head) {
	if p.json {
		p.buf = append(p.buf, `{"version":1,"file":`...)
		p.buf = record.AppendText(p.buf, []byte(path))
		p.printf(`,"kind":"%s"`, h.kind)
		if h.id != nil {
			p.printf(`,"endOffset":%d,"epoch":%d`, h.id.EndOffset, h.id.Epoch)
		}
		if h.baseOffset != nil {
			p.printf(`,"baseOffset":%d`, *h.baseOffset)
		}
		p.buf = append(p.buf, '}')
	} else {
		p.printf("%s: %s", printed(path), h)
	}
	p.line()
}

func (h head) String() string {
	switch h.kind {
	case kindCheckpoint:
		switch {
		case h.id == nil:
			return "snapshot of the metadata"
		case *h.id == checkpoint.ID{}:
			return "zero checkpoint"
		}
		return fmt.Sprintf("snapshot of the metadata with end offset %d, epoch %d", h.id.EndOffset, h.id.Epoch)
	case kindBootstrap:
		return "first metadata records, as releases before 4.4 format"
	case kindSegment:
		if h.baseOffset != nil {
			return fmt.Sprintf("segment of the metadata log from offset %d on", *h.baseOffset)
		}
		return "segment of the metadata log"
	}
	return string(h.kind)
}

func (p *printer) batch(b *record.Batch) {
	if p.json {
		p.timestamp = strconv.AppendInt(append(p.timestamp[:0], `,"timestamp":`...), b.Timestamp, 10)
		p.number(`{"batch":{"baseOffset":`, b.BaseOffset)
		p.number(`,"lastOffset":`, b.LastOffset())
		p.number(`,"count":`, int64(b.Count))
		p.number(`,"partitionLeaderEpoch":`, int64(b.LeaderEpoch))
		p.buf = strconv.AppendBool(append(p.buf, `,"isControl":`...), b.Control)
		p.number(`,"position":`, b.Position)
		p.buf = append(p.buf, p.timestamp...)
		p.number(`,"size":`, int64(b.Size))
		p.printf(`,"compression":"%s"`, b.Compression)
		p.number(`,"crc":`, int64(b.CRC))
		p.buf = append(p.buf, "}}"...)
	} else {
		p.printf("batch at byte %d: offsets %d to %d, %s, epoch %d, ", b.Position, b.BaseOffset, b.LastOffset(), counted(int64(b.Count), recordNoun(b)), b.LeaderEpoch)
		p.buf = appendTime(p.buf, b.Timestamp)
		p.printf(", %d bytes", b.Size)
		if b.Compression != record.None {
			p.printf(" (%s)", b.Compression)
		}
		p.printf(", checksum %08x", b.CRC)
	}
	p.line()
}

func recordNoun(b *record.Batch) string {
	if b.Control {
		return "control record"
	}
	return "record"
}

func counted(n int64, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "batch"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}

func (p *printer) record(e record.Entry, r *record.Record) {
	if p.json {
		p.number(`{"offset":`, e.Offset)
		p.buf = append(p.buf, p.timestamp...)
		if r.Message.Control {
			p.buf = append(p.buf, `,"control":true`...)
		}
		p.buf = append(p.buf, `,"type":"`...)
		p.buf = append(p.buf, r.Message.Type...)
		p.number(`","version":`, int64(r.Version))
		p.buf = append(p.buf, `,"data":`...)
		p.buf = r.AppendData(p.buf)
		p.buf = append(p.buf, '}')
	} else {
		p.number("  ", e.Offset)
		p.buf = append(p.buf, ' ')
		p.buf = append(p.buf, r.Message.Type...)
		p.number(" v", int64(r.Version))
		p.buf = append(p.buf, ' ')
		p.buf = r.AppendData(p.buf)
		p.remark(r)
	}
	p.line()
}

// remark adds what a person cannot read in the numbers.
func (p *printer) remark(r *record.Record) {
	if r.Message == record.FeatureLevel && r.Text("Name") == "metadata.version" {
		p.printf("  # %s", features.MetadataVersion(r.Int("FeatureLevel")))
	}
	for i := range r.Message.Fields {
		if f := &r.Message.Fields[i]; strings.HasSuffix(f.Name, "Timestamp") {
			p.buf = append(p.buf, "  # "...)
			p.buf = appendTime(p.buf, r.Int(f.Name))
		}
	}
}

func (p *printer) notDecoded(e record.Entry, reason string) {
	if p.json {
		p.number(`{"offset":`, e.Offset)
		p.buf = append(p.buf, p.timestamp...)
		p.buf = append(p.buf, `,"error":`...)
		p.buf = record.AppendText(p.buf, []byte(reason))
		p.buf = append(p.buf, `,"value":"`...)
		p.buf = base64.StdEncoding.AppendEncode(p.buf, e.Value)
		p.buf = append(p.buf, `"}`...)
	} else {
		p.printf("  %d not decoded (%s): ", e.Offset, reason)
		p.buf = hex.AppendEncode(p.buf, e.Value)
	}
	p.line()
}

func (p *printer) end(s summary, err error) {
	if p.json {
		p.printf(`{"end":{"batches":%d,"records":%d,"bytes":%d,"zeroBytes":%d,"error":`, s.batches, s.records, s.bytes, s.zeroBytes)
		p.failure(err)
		p.buf = append(p.buf, "}}"...)
	} else {
		p.printf("end: ")
		if s.batches > 0 {
			p.printf("%s, %s, ", counted(s.batches, "batch"), counted(s.records, "record"))
		}
		p.printf("%s", counted(s.bytes, "byte"))
		if s.zeroBytes > 0 {
			p.printf(", then %s: space made ahead of time, or a write that a crash undid", counted(s.zeroBytes, "zero byte"))
		}
		if err != nil {
			p.printf("; damaged")
		}
	}
	p.line()
}

// failure appends an error as JSON.
func (p *printer) failure(err error) {
	var corrupt *checkpoint.CorruptError
	var file *FileError
	switch {
	case err == nil:
		p.printf("null")
		return
	case errors.As(err, &corrupt):
		p.printf(`{"offset":%d,"reason":`, corrupt.Offset)
		p.buf = record.AppendText(p.buf, []byte(corrupt.Reason))
	case errors.As(err, &file):
		p.printf(`{"offset":null,"reason":`)
		p.buf = record.AppendText(p.buf, []byte(file.Reason))
	default:
		p.printf(`{"offset":null,"reason":`)
		p.buf = record.AppendText(p.buf, []byte(err.Error()))
	}
	p.printf("}")
}

// appendTime appends a time in milliseconds; one that is none stays a number.
func appendTime(dst []byte, millis int64) []byte {
	const last = 253402300799999 // of the year 9999
	if millis < 0 || millis > last {
		return strconv.AppendInt(dst, millis, 10)
	}
	return time.UnixMilli(millis).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}
