package loki

import (
	"math"
	"strconv"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"google.golang.org/protobuf/encoding/protowire"
)

// The message PushRequest and what is in it, by field number:
//
//	PushRequest { 1: streams }   Stream { 1: labels as text, 2: entries }   Entry { 1: Timestamp, 2: line, 3: metadata }
//	Timestamp { 1: seconds, 2: nanos }   Pair { 1: name, 2: value }

// maxSeconds is more than any time that int64 nanoseconds can hold.
const maxSeconds = math.MaxInt64 / 1_000_000_000

var errProtobuf = millstream.Errorf(millstream.Invalid, "the body is no protobuf push request")

// fields calls f for each field of a message: bytes for a length-delimited one, n for a varint. Others are passed over.
func fields(msg []byte, f func(num protowire.Number, data []byte, n uint64) error) error {
	for len(msg) > 0 {
		num, typ, k := protowire.ConsumeTag(msg)
		if k < 0 {
			return errProtobuf
		}
		msg = msg[k:]
		var data []byte
		var n uint64
		switch typ {
		case protowire.BytesType:
			data, k = protowire.ConsumeBytes(msg)
		case protowire.VarintType:
			n, k = protowire.ConsumeVarint(msg)
		default:
			k = protowire.ConsumeFieldValue(num, typ, msg)
			num = 0
		}
		if k < 0 {
			return errProtobuf
		}
		msg = msg[k:]
		if err := f(num, data, n); err != nil {
			return err
		}
	}
	return nil
}

func (p *push) protobuf(body []byte) error {
	if len(body) == 0 {
		return millstream.Errorf(millstream.Invalid, "EOF: the body is empty")
	}
	read := 0
	return fields(body, func(num protowire.Number, stream []byte, _ uint64) error {
		if num != 1 {
			return nil
		}
		read += len(stream)
		return p.protoStream(stream, read)
	})
}

// protoStream reads a stream. The labels come first from every sender, but need not.
func (p *push) protoStream(stream []byte, read int) error {
	p.labels.reset()
	err := fields(stream, func(num protowire.Number, text []byte, _ uint64) error {
		if num == 1 {
			return p.parseLabels(decode.View(text))
		}
		return nil
	})
	if err != nil {
		return err
	}
	left := len(stream)
	return fields(stream, func(num protowire.Number, entry []byte, _ uint64) error {
		if num != 2 {
			return nil
		}
		left -= len(entry)
		return p.protoEntry(entry, read-left)
	})
}

func (p *push) protoEntry(entry []byte, read int) error {
	p.meta.reset()
	var sec, nanos int64
	var line []byte
	err := fields(entry, func(num protowire.Number, data []byte, _ uint64) error {
		switch num {
		case 1:
			return fields(data, func(num protowire.Number, _ []byte, n uint64) error {
				switch num {
				case 1:
					sec = int64(n)
				case 2:
					nanos = int64(int32(n))
				}
				return nil
			})
		case 2:
			line = data
		case 3:
			return p.protoPair(data)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if sec >= maxSeconds || sec <= -maxSeconds || nanos < 0 || nanos >= 1e9 {
		p.result.Reject(p.index, millstream.TimestampField, "the time is out of range")
		p.index++
		return nil
	}
	if !p.entry(sec*1e9+nanos, line, read) {
		return p.err
	}
	return nil
}

func (p *push) protoPair(pair []byte) error {
	var name, value []byte
	err := fields(pair, func(num protowire.Number, data []byte, _ uint64) error {
		switch num {
		case 1:
			name = data
		case 2:
			value = data
		}
		return nil
	})
	p.meta.add(name)
	p.meta.add(value)
	return err
}

// parseLabels reads {name="value", …} as Prometheus writes it: values, and names that are no identifiers, are quoted as in Go.
func (p *push) parseLabels(s string) error {
	s, ok := strings.CutPrefix(strings.TrimSpace(s), "{")
	for s = strings.TrimSpace(s); ok && s != "}"; {
		var name, value string
		if name, s, ok = labelName(s); !ok {
			break
		}
		if s, ok = strings.CutPrefix(strings.TrimSpace(s), "="); !ok {
			break
		}
		if value, s, ok = unquote(strings.TrimSpace(s)); !ok {
			break
		}
		p.labels.add([]byte(name))
		p.labels.add([]byte(value))
		s = strings.TrimSpace(s)
		if rest, more := strings.CutPrefix(s, ","); more {
			s = strings.TrimSpace(rest)
		} else {
			ok = s == "}"
		}
	}
	if !ok {
		return millstream.Errorf(millstream.Invalid, "couldn't parse labels: use {name=\"value\", …}")
	}
	return nil
}

func labelName(s string) (name, rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		return unquote(s)
	}
	n := strings.IndexAny(s, " =,}")
	if n <= 0 {
		return "", "", false
	}
	return s[:n], s[n:], true
}

func unquote(s string) (text, rest string, ok bool) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", "", false
	}
	text, err = strconv.Unquote(q)
	return text, s[len(q):], err == nil
}
