package api

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// minCompressed is the size below which a reply of known length goes out as it is: it fits a packet anyway.
	minCompressed = 1400
	// defaultStall is how long the other side may take to send or accept anything before it is cut off.
	defaultStall = 60 * time.Second
	// deadlineSteps is how many times in that span a deadline is moved at most, however many small reads or writes there are.
	deadlineSteps = 12
)

// writer counts and, when the client can take it, compresses a reply. A client that stops reading is cut off after a minute.
type writer struct {
	http.ResponseWriter
	control  *http.ResponseController
	accept   string // Accept-Encoding
	head     bool
	relayed  bool // another node's reply: it is compressed already if it should be
	status   int
	written  int64 // bytes of the reply before compression
	stall    time.Duration
	deadline time.Time // when the write deadline was last moved
	encoder  encoder   // nil: not compressed
	pool     *sync.Pool
	request  io.ReadCloser // the request's body
}

// encoder is what gzip and zstd writers have in common.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

var (
	gzipPool = sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // fails for unknown levels only
		return z
	}}
	zstdPool = sync.Pool{New: func() any {
		z, _ := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
		return z
	}}
)

func newWriter(w http.ResponseWriter, r *http.Request, stall time.Duration) *writer {
	return &writer{ResponseWriter: w, stall: stall, control: http.NewResponseController(w), accept: r.Header.Get("Accept-Encoding"), head: r.Method == http.MethodHead}
}

// Unwrap lets http.ResponseController find the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader decides on the compression, as the last moment at which headers can change.
func (w *writer) WriteHeader(code int) {
	if w.status != 0 {
		return
	}
	if code >= 200 {
		w.status = code
		if b, ok := w.request.(*body); ok {
			b.finish()
		}
	}
	if code >= 200 && code != http.StatusNoContent && code != http.StatusNotModified && !w.head && !w.relayed {
		w.compress()
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *writer) compress() {
	h := w.Header()
	if h.Get("Content-Encoding") != "" || !compressible(h.Get("Content-Type")) {
		return
	}
	h.Add("Vary", "Accept-Encoding")
	if n, err := strconv.Atoi(h.Get("Content-Length")); err == nil && n < minCompressed {
		return
	}
	name := ""
	switch {
	case accepts(w.accept, "zstd"):
		name, w.pool = "zstd", &zstdPool
	case accepts(w.accept, "gzip"):
		name, w.pool = "gzip", &gzipPool
	default:
		return
	}
	w.encoder = w.pool.Get().(encoder)
	w.encoder.Reset(w.ResponseWriter)
	h.Set("Content-Encoding", name)
	h.Del("Content-Length")
}

func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if now := time.Now(); now.Sub(w.deadline) >= w.stall/deadlineSteps {
		w.deadline = now
		_ = w.control.SetWriteDeadline(now.Add(w.stall)) // a test recorder has none
	}
	w.written += int64(len(p))
	if w.encoder != nil {
		return w.encoder.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Flush sends what there is, for replies that trickle.
func (w *writer) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.encoder != nil {
		_ = w.encoder.Flush() // a broken connection shows at the next Write
	}
	_ = w.control.Flush()
}

// close ends the compressed stream and gives the encoder back.
func (w *writer) close() {
	if w.encoder == nil {
		return
	}
	_ = w.encoder.Close() // fails only when the client is gone
	w.encoder.Reset(io.Discard)
	w.pool.Put(w.encoder)
	w.encoder = nil
}

// compressible leaves out what is compressed already, and event streams, which proxies hold back when they are.
func compressible(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	switch {
	case t == "text/event-stream":
		return false
	case strings.HasPrefix(t, "text/"):
		return true
	}
	return t == "application/json" || t == "application/x-ndjson" || t == "application/vnd.apache.arrow.stream" || strings.HasSuffix(t, "+json")
}

// accepts says whether an Accept-Encoding header lists a coding without refusing it by q=0.
func accepts(header, coding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		q, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		v, err := strconv.ParseFloat(q, 64)
		return !ok || err == nil && v > 0
	}
	return false
}

// body cuts off a client that sends nothing for the stall time, however long the whole body takes. The deadline holds from the start, also for a body that no
// handler reads: net/http reads what is left of it before it replies.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
	set     time.Time // when the deadline was last moved
	done    bool      // nothing is left to read
}

func guardBody(w http.ResponseWriter, r *http.Request, stall time.Duration) io.ReadCloser {
	if r.Body == nil || r.Body == http.NoBody {
		return r.Body
	}
	b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), stall: stall}
	b.extend()
	return b
}

func (b *body) extend() {
	if now := time.Now(); !b.done && now.Sub(b.set) >= b.stall/deadlineSteps {
		b.set = now
		_ = b.control.SetReadDeadline(now.Add(b.stall)) // a test recorder has none
	}
}

func (b *body) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		// From here on the server itself watches the connection; a deadline left behind would look like a client that went away.
		b.done = true
		_ = b.control.SetReadDeadline(time.Time{})
	default:
		b.done = true
		_ = b.control.SetReadDeadline(time.Now()) // nobody waits for the rest
	}
	return n, err
}

// finish is called when the reply begins: what is left of the body has a last short while to arrive, and the reply does not wait for it any longer.
func (b *body) finish() {
	if !b.done {
		b.done = true
		_ = b.control.SetReadDeadline(time.Now().Add(b.stall / deadlineSteps))
	}
}
