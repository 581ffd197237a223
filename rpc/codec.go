package rpc

import (
	"encoding/binary"
	"sync"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// codec is gRPC's for protocol buffers, but for writes: their batches are encoded once, straight into what the connection sends, and decoded from where they
// were received. What is on the wire is the message of rpc.proto all the same.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// outgoing is an encoded WriteRequest. Its buffer is given back when the connection has sent it.
type outgoing struct{ buf *[]byte }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if o, ok := v.(outgoing); ok {
		return mem.BufferSlice{mem.NewBuffer(o.buf, buffers{})}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2. The parts of a WriteRequest share the memory that is made for the whole.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if req, ok := v.(*rpcpb.WriteRequest); ok {
		return readWrite(data.Materialize(), req)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// buffers are what writes are encoded into, and frames received into. Unlike gRPC's own they are not zeroed before each use.
type buffers struct{}

var (
	pages  = sync.Pool{New: func() any { b := make([]byte, pageSize); return &b }}  // of pageSize exactly
	frames = sync.Pool{New: func() any { b := make([]byte, frameSize); return &b }} // of frameSize exactly
	pool   = sync.Pool{New: func() any { return new([]byte) }}                      // of any other size
)

const (
	// pageSize is for frames of small messages, which a reader that is slow may hold many of.
	pageSize = 4 << 10
	// frameSize is the most that a frame of gRPC holds.
	frameSize = 16 << 10
	// keepBuffer is the largest buffer worth keeping.
	keepBuffer = 4 << 20
)

// Get implements mem.BufferPool. The length is size; 0 is for a buffer that will grow.
func (buffers) Get(size int) *[]byte {
	from := &pool
	switch {
	case 0 < size && size <= pageSize:
		from = &pages
	case 0 < size && size <= frameSize:
		from = &frames
	}
	b := from.Get().(*[]byte)
	if cap(*b) < size {
		*b = make([]byte, size)
	}
	*b = (*b)[:size]
	return b
}

// Put implements mem.BufferPool.
func (buffers) Put(b *[]byte) {
	switch n := cap(*b); {
	case n == pageSize:
		pages.Put(b)
	case n == frameSize:
		frames.Put(b)
	case n <= keepBuffer:
		pool.Put(b)
	}
}

// The fields of WriteRequest and Part.
const (
	fieldParts = 1
	fieldOrg   = 1
	fieldName  = 2
	fieldBatch = 3
)

// appendPart appends a batch as a part of a WriteRequest, and says how long its encoding is.
func appendPart(dst []byte, b *millstream.Batch) (out []byte, size int) {
	dst, part := openField(dst, fieldParts)
	dst = protowire.AppendString(protowire.AppendTag(dst, fieldOrg, protowire.BytesType), string(b.Org))
	dst = protowire.AppendString(protowire.AppendTag(dst, fieldName, protowire.BytesType), b.Name)
	dst, batch := openField(dst, fieldBatch)
	dst = b.AppendTo(dst)
	size = len(dst) - batch
	closeField(dst, batch)
	closeField(dst, part)
	return dst, size
}

// lengthBytes is room for a length that is not known yet: a varint may have more bytes than it needs.
const lengthBytes = 5

// openField begins a field of bytes; at is where they begin.
func openField(dst []byte, field protowire.Number) (out []byte, at int) {
	dst = append(protowire.AppendTag(dst, field, protowire.BytesType), make([]byte, lengthBytes)...)
	return dst, len(dst)
}

// closeField writes the length of the field that began at a place and ends with dst.
func closeField(dst []byte, at int) {
	n := uint64(len(dst) - at)
	for i := range lengthBytes {
		dst[at-lengthBytes+i] = byte(n>>(7*i))&0x7f | 0x80
	}
	dst[at-1] &= 0x7f
}

// readWrite reads a WriteRequest whose parts keep p.
func readWrite(p []byte, req *rpcpb.WriteRequest) error {
	req.Reset()
	return eachBytes(p, func(field protowire.Number, v []byte) error {
		if field != fieldParts {
			return nil
		}
		part := &rpcpb.Part{}
		req.Parts = append(req.Parts, part)
		return eachBytes(v, func(field protowire.Number, v []byte) error {
			switch field {
			case fieldOrg:
				part.Org = string(v)
			case fieldName:
				part.Name = string(v)
			case fieldBatch:
				part.Batch = v
			}
			return nil
		})
	})
}

// eachBytes calls f for each field of a message that holds bytes; others are of later releases.
func eachBytes(p []byte, f func(field protowire.Number, v []byte) error) error {
	for len(p) > 0 {
		field, typ, n := protowire.ConsumeTag(p)
		if n < 0 {
			return protowire.ParseError(n)
		}
		p = p[n:]
		if n = protowire.ConsumeFieldValue(field, typ, p); n < 0 {
			return protowire.ParseError(n)
		}
		if typ == protowire.BytesType {
			_, skip := binary.Uvarint(p)
			if err := f(field, p[skip:n:n]); err != nil {
				return err
			}
		}
		p = p[n:]
	}
	return nil
}
