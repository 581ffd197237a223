package decode

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/millstream/millstream"
)

const (
	// freeBytes may be decoded before the ratio counts: small bodies of repeated text compress better than any sensible limit.
	freeBytes = 1 << 20
	// zstdWindow is how far back a zstd frame may refer, which is what its decoder must keep in memory.
	zstdWindow = 8 << 20
	// Buffers outside of these sizes are not kept for the next request.
	minPooled, maxPooled = 4 << 10, 8 << 20
)

// Body reads a request's body and undoes its content encoding: "" or identity, gzip, zstd, deflate (zlib or raw), snappy (block or framed).
// It never holds more than the limits allow, whatever the body claims. Kinds: TooLarge over a limit, Unsupported for an unknown encoding, Invalid for a
// damaged body, Timeout or Canceled when the sender stalled or left. The caller owns the bytes and may hand them to Release when nothing refers to them.
func Body(r io.Reader, encoding string, l Limits) ([]byte, error) {
	l = l.WithDefaults()
	m := &meter{r: r, limit: l.MaxBody}
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return readAll(m, m, l, false)
	case "gzip", "x-gzip":
		return gunzip(m, l)
	case "zstd":
		return unzstd(m, l)
	case "deflate":
		return inflate(m, l)
	case "snappy", "x-snappy-framed":
		return unsnappy(m, l)
	}
	return nil, millstream.Errorf(millstream.Unsupported, "content encoding %q is not supported: use gzip, zstd, deflate, snappy or none", encoding)
}

// Release gives the memory of a body back for later requests. Nothing may refer to it any more; batches never do.
func Release(body []byte) {
	if cap(body) >= minPooled && cap(body) <= maxPooled {
		body = body[:0]
		buffers.Put(&body)
	}
}

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 64<<10)
	return &b
}}

// meter counts what was read of the wire and remembers why reading failed, because decompressors hide the cause.
type meter struct {
	r     io.Reader
	n     int64
	limit int64
	err   error
}

var errWireLimit = errors.New("body limit reached")

func (m *meter) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.r.Read(p)
	if m.n += int64(n); m.n > m.limit {
		n, err = 0, errWireLimit
	}
	m.err = err
	return n, err
}

// readAll reads decoded bytes from src, which reads from m, into a pooled buffer.
func readAll(src io.Reader, m *meter, l Limits, compressed bool) ([]byte, error) {
	buf := (*buffers.Get().(*[]byte))[:0]
	for {
		if len(buf) == cap(buf) {
			buf = grow(buf, l.MaxDecoded)
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		size := int64(len(buf))
		switch {
		case size > l.MaxDecoded:
			err = millstream.Errorf(millstream.TooLarge, "the body is larger than %d bytes: send smaller batches", l.MaxDecoded)
		case compressed && size > freeBytes && size > l.MaxRatio*m.n:
			err = millstream.Errorf(millstream.TooLarge, "the body expands to more than %d times its compressed size", l.MaxRatio)
		case errors.Is(err, io.EOF) && (m.err == nil || errors.Is(m.err, io.EOF)):
			return buf, nil
		case errors.Is(err, io.EOF): // a decompressor may take a failure between two frames for the end
			err = bodyError(m.err, m)
		case err == nil:
			continue
		default:
			err = bodyError(err, m)
		}
		Release(buf)
		return nil, err
	}
}

// grow doubles the buffer, but not far beyond what the limit lets in. The small one is left to the collector, so that the pool keeps what fits.
func grow(buf []byte, limit int64) []byte {
	size := min(2*int64(cap(buf)), limit+minPooled)
	out := make([]byte, len(buf), max(size, int64(cap(buf)+minPooled)))
	copy(out, buf)
	return out
}

// bodyError classifies a failure of reading or of decompression.
func bodyError(err error, m *meter) error {
	cause := err
	if m.err != nil && !errors.Is(m.err, io.EOF) {
		cause = m.err
	}
	var kinded *millstream.Error
	switch {
	case errors.As(cause, &kinded):
		return cause
	case errors.Is(cause, errWireLimit):
		return millstream.Errorf(millstream.TooLarge, "the body is larger than %d bytes on the wire: send smaller batches", m.limit)
	case errors.Is(cause, zstd.ErrWindowSizeExceeded), errors.Is(cause, zstd.ErrDecoderSizeExceeded):
		return millstream.Errorf(millstream.TooLarge, "the zstd window of the body is larger than %d bytes", zstdWindow)
	case errors.Is(cause, os.ErrDeadlineExceeded), errors.Is(cause, context.DeadlineExceeded):
		return millstream.Wrap(millstream.Timeout, cause, "the body did not arrive in time")
	case errors.Is(cause, context.Canceled):
		return millstream.Wrap(millstream.Canceled, cause, "the sender left before the body was read")
	}
	return millstream.Wrap(millstream.Invalid, cause, "the body cannot be read or decompressed: it is damaged or cut short")
}

// none is an empty reader that pooled decompressors refer to while unused.
type none struct{}

func (none) Read([]byte) (int, error) { return 0, io.EOF }

var gzips = sync.Pool{New: func() any { return new(gzip.Reader) }}

// gunzip reads all members of a gzip body; the limits count their sum.
func gunzip(m *meter, l Limits) ([]byte, error) {
	z := gzips.Get().(*gzip.Reader)
	defer func() {
		_ = z.Reset(none{}) // drops the reference to the body; an empty one cannot be opened, which does not matter here
		gzips.Put(z)
	}()
	if err := z.Reset(m); err != nil {
		return nil, bodyError(err, m)
	}
	return readAll(z, m, l, true)
}

var zstds = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(DefaultMaxDecoded))
	if err != nil {
		return err
	}
	return z
}}

func unzstd(m *meter, l Limits) ([]byte, error) {
	z, ok := zstds.Get().(*zstd.Decoder)
	if !ok {
		return nil, millstream.Errorf(millstream.Internal, "no zstd decoder")
	}
	defer func() {
		_ = z.Reset(nil) // drops the reference to the body
		zstds.Put(z)
	}()
	if err := z.Reset(m); err != nil {
		return nil, bodyError(err, m)
	}
	return readAll(z, m, l, true)
}

// inflate reads "deflate", which is zlib by the standard and raw deflate from many senders; the zlib header tells them apart.
func inflate(m *meter, l Limits) ([]byte, error) {
	br := bufio.NewReader(m)
	head, err := br.Peek(2)
	if err != nil {
		return nil, bodyError(io.ErrUnexpectedEOF, m)
	}
	if head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		z, err := zlib.NewReader(br)
		if err != nil {
			return nil, bodyError(err, m)
		}
		return readAll(z, m, l, true)
	}
	return readAll(flate.NewReader(br), m, l, true)
}

// snappyStream is how a framed snappy stream begins; a block begins with its decoded length instead.
var snappyStream = []byte("\xff\x06\x00\x00sNaPpY")

// unsnappy decodes one snappy block, whose declared length is checked before memory is taken for it, or a framed stream.
func unsnappy(m *meter, l Limits) ([]byte, error) {
	wire, err := readAll(m, m, l, false)
	if err != nil {
		return nil, err
	}
	defer Release(wire)
	if bytes.HasPrefix(wire, snappyStream) {
		return readAll(snappy.NewReader(bytes.NewReader(wire)), m, l, true)
	}
	n, err := snappy.DecodedLen(wire)
	switch {
	case err != nil:
		return nil, bodyError(err, m)
	case int64(n) > l.MaxDecoded:
		return nil, millstream.Errorf(millstream.TooLarge, "the body is larger than %d bytes: send smaller batches", l.MaxDecoded)
	case int64(n) > freeBytes && int64(n) > l.MaxRatio*m.n:
		return nil, millstream.Errorf(millstream.TooLarge, "the body expands to more than %d times its compressed size", l.MaxRatio)
	}
	buf := *buffers.Get().(*[]byte)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	out, err := snappy.Decode(buf[:cap(buf)], wire)
	if err != nil {
		Release(buf)
		return nil, bodyError(err, m)
	}
	return out, nil
}
