package prometheus

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// message walks the fields of one protobuf message.
type message struct {
	p   []byte
	bad bool
}

// next reads a tag; it is false at the end or at damage.
func (m *message) next() (protowire.Number, protowire.Type, bool) {
	if len(m.p) == 0 || m.bad {
		return 0, 0, false
	}
	var tag uint64
	if m.p[0] < 0x80 { // the fields of these messages below 16 have one-byte tags
		tag, m.p = uint64(m.p[0]), m.p[1:]
	} else {
		tag = m.varint()
	}
	num, typ := protowire.DecodeTag(tag)
	if m.bad || num < 1 {
		m.bad = true
		return 0, 0, false
	}
	return num, typ, true
}

func (m *message) varint() uint64 {
	if len(m.p) > 0 && m.p[0] < 0x80 {
		v := uint64(m.p[0])
		m.p = m.p[1:]
		return v
	}
	v, n := protowire.ConsumeVarint(m.p)
	if n < 0 {
		m.bad = true
		return 0
	}
	m.p = m.p[n:]
	return v
}

func (m *message) bytes() []byte {
	n := m.varint()
	if m.bad || n > uint64(len(m.p)) {
		m.bad = true
		return nil
	}
	b := m.p[:n:n]
	m.p = m.p[n:]
	return b
}

func (m *message) text() string { return decode.View(m.bytes()) }

func (m *message) double() float64 {
	v, n := protowire.ConsumeFixed64(m.p)
	if n < 0 {
		m.bad = true
		return 0
	}
	m.p = m.p[n:]
	return math.Float64frombits(v)
}

func (m *message) skip(num protowire.Number, typ protowire.Type) {
	n := protowire.ConsumeFieldValue(num, typ, m.p)
	if n < 0 {
		m.bad = true
		return
	}
	m.p = m.p[n:]
}

// errMalformed is the answer to a body that is not the protobuf message it should be.
func errMalformed(what string) error {
	return millstream.Errorf(millstream.Invalid, "the body is not a valid %s message; remote write sends it as snappy-compressed protobuf", what)
}

const (
	varintType = protowire.VarintType
	bytesType  = protowire.BytesType
	fixedType  = protowire.Fixed64Type
)
