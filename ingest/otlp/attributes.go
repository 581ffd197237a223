package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"

	common "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/millstream/millstream"
)

// fields writes attributes into the current record of a builder: maps are flattened with dots, arrays are kept as JSON, bytes as base64.
type fields struct {
	b        *millstream.Builder
	maxDepth int
	name     []byte // of the attribute being written
	scratch  []byte
	over     error // why the request ends, if it does
}

// commit ends the record.
func (f *fields) commit(at int64) (field, reason string) {
	err := f.b.Commit(at)
	if err == nil {
		return "", ""
	}
	if millstream.EndsRequest(err) {
		f.over = err
	}
	return "", millstream.Message(err)
}

// Where a reason comes from that all records of a resource or of a scope share.
const (
	inResource = "resource"
	inScope    = "scope"
)

// shared is why all records of a resource, or of a scope in it, are rejected: found out with the first of them, not anew with each.
type shared struct{ resource, scope string }

// known is the reason for the next record, if there is one already.
func (s *shared) known() (field, reason string) {
	if s.resource != "" {
		return inResource, s.resource
	}
	return inScope, s.scope
}

// note remembers a reason that further records share.
func (s *shared) note(field, reason string) {
	switch field {
	case inResource:
		s.resource = reason
	case inScope:
		s.scope = reason
	}
}

func (f *fields) attributes(kvs []*common.KeyValue) (reason string) {
	for _, kv := range kvs {
		if f.b.Err() != nil {
			return "" // what comes after a failure is not of interest, and may be much
		}
		f.name = append(f.name[:0], kv.GetKey()...)
		if r := f.value(kv.GetValue(), 1); r != "" {
			return r
		}
	}
	return ""
}

// value writes v under f.name; a reason is given if the record must be rejected.
func (f *fields) value(v *common.AnyValue, depth int) (reason string) {
	if depth > f.maxDepth {
		return "attributes nest deeper than " + strconv.Itoa(f.maxDepth)
	}
	switch x := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		f.text(x.StringValue)
	case *common.AnyValue_BoolValue:
		f.b.Bool(f.name, x.BoolValue)
	case *common.AnyValue_IntValue:
		f.b.Int(f.name, x.IntValue)
	case *common.AnyValue_DoubleValue:
		f.b.Double(f.name, x.DoubleValue)
	case *common.AnyValue_BytesValue:
		f.scratch = base64.StdEncoding.AppendEncode(f.scratch[:0], x.BytesValue)
		f.b.String(f.name, f.scratch)
	case *common.AnyValue_ArrayValue:
		var ok bool
		if f.scratch, ok = appendJSON(f.scratch[:0], v, f.maxDepth-depth); !ok {
			return "attributes nest deeper than " + strconv.Itoa(f.maxDepth)
		}
		f.b.String(f.name, f.scratch)
	case *common.AnyValue_KvlistValue:
		n := len(f.name)
		for _, kv := range x.KvlistValue.GetValues() {
			if f.b.Err() != nil {
				return ""
			}
			f.name = f.name[:n]
			if n > 0 {
				f.name = append(f.name, '.')
			}
			f.name = append(f.name, kv.GetKey()...)
			if r := f.value(kv.GetValue(), depth+1); r != "" {
				return r
			}
		}
		f.name = f.name[:n]
	}
	return "" // an unset value is no value
}

func (f *fields) text(s string) {
	f.scratch = append(f.scratch[:0], s...)
	f.b.String(f.name, f.scratch)
}

func (f *fields) str(name, s string) {
	if s == "" {
		return
	}
	f.name = append(f.name[:0], name...)
	f.text(s)
}

func (f *fields) hex(name string, id []byte) {
	f.name = append(f.name[:0], name...)
	f.scratch = hex.AppendEncode(f.scratch[:0], id)
	f.b.String(f.name, f.scratch)
}

// zero says whether an id is absent: empty or all zero bytes.
func zero(id []byte) bool {
	for _, b := range id {
		if b != 0 {
			return false
		}
	}
	return true
}

// service is the value of service.name, if it is a string.
func service(kvs []*common.KeyValue) string { return attribute(kvs, "service.name") }

func attribute(kvs []*common.KeyValue, key string) string {
	for _, kv := range kvs {
		if kv.GetKey() == key {
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}

// appendJSON writes a value as JSON; false if it nests deeper than depth.
func appendJSON(dst []byte, v *common.AnyValue, depth int) ([]byte, bool) {
	if depth < 0 {
		return dst, false
	}
	var ok bool
	switch x := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		dst = millstream.AppendJSONString(dst, x.StringValue)
	case *common.AnyValue_BoolValue:
		dst = strconv.AppendBool(dst, x.BoolValue)
	case *common.AnyValue_IntValue:
		dst = strconv.AppendInt(dst, x.IntValue, 10)
	case *common.AnyValue_DoubleValue:
		dst = appendDouble(dst, x.DoubleValue)
	case *common.AnyValue_BytesValue:
		dst = append(base64.StdEncoding.AppendEncode(append(dst, '"'), x.BytesValue), '"')
	case *common.AnyValue_ArrayValue:
		dst = append(dst, '[')
		for i, e := range x.ArrayValue.GetValues() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, ok = appendJSON(dst, e, depth-1); !ok {
				return dst, false
			}
		}
		dst = append(dst, ']')
	case *common.AnyValue_KvlistValue:
		return appendObject(dst, x.KvlistValue.GetValues(), depth)
	default:
		dst = append(dst, "null"...)
	}
	return dst, true
}

func appendObject(dst []byte, kvs []*common.KeyValue, depth int) ([]byte, bool) {
	dst = append(dst, '{')
	for i, kv := range kvs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(millstream.AppendJSONString(dst, kv.GetKey()), ':')
		var ok bool
		if dst, ok = appendJSON(dst, kv.GetValue(), depth-1); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

// appendDouble writes a double as JSON; what JSON has no number for becomes a string.
func appendDouble(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return millstream.AppendJSONString(dst, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return append(dst, millstream.FormatDouble(v)...)
}
