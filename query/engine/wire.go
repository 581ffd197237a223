package engine

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A frame is a kind, the length of its body as four bytes, and the body.
const (
	frameMessage = 'M' // parent to child: a message
	frameData    = 'A' // child to parent: a piece of the Arrow stream
	frameOutcome = 'O' // child to parent: the end of a job
	frameReady   = 'R' // child to parent: an instance is open
)

const maxFrame = 64 << 20

// conn writes and reads frames. Writes may come from several goroutines, reads from one.
type conn struct {
	mu sync.Mutex
	w  io.Writer
	r  *bufio.Reader
}

func newConn(rw io.ReadWriter) *conn {
	return &conn{w: rw, r: bufio.NewReaderSize(rw, 64<<10)}
}

func (c *conn) write(kind byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(body)))
	if _, err := c.w.Write(append(head[:], body[:min(len(body), 4<<10)]...)); err != nil {
		return err
	}
	if len(body) <= 4<<10 {
		return nil
	}
	_, err := c.w.Write(body[4<<10:])
	return err
}

func (c *conn) writeJSON(kind byte, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	return c.write(kind, body)
}

// head reads the start of a frame; its body has to be read from c.r.
func (c *conn) head() (kind byte, size int, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, 0, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, 0, fmt.Errorf("frame of %d bytes", n)
	}
	return head[0], int(n), nil
}

func (c *conn) body(size int) ([]byte, error) {
	body := make([]byte, size)
	_, err := io.ReadFull(c.r, body)
	return body, err
}

// dataWriter sends an Arrow stream as frames.
type dataWriter struct {
	c     *conn
	bytes int64
}

func (w *dataWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part := p[:min(len(p), maxFrame)]
		if err := w.c.write(frameData, part); err != nil {
			return 0, err
		}
		p = p[len(part):]
	}
	w.bytes += int64(n)
	return n, nil
}

// dataReader joins the data frames of one job to a stream that ends with the outcome.
type dataReader struct {
	c    *conn
	left int // bytes of the current frame
	end  *outcome
	err  error
}

func (r *dataReader) Read(p []byte) (int, error) {
	for r.left == 0 {
		if r.end != nil {
			return 0, io.EOF
		}
		if r.err == nil {
			r.err = r.next()
		}
		if r.err != nil {
			return 0, r.err
		}
	}
	n, err := r.c.r.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

func (r *dataReader) next() error {
	kind, size, err := r.c.head()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF // EOF is the end of the answer, not of the child
	}
	if err != nil {
		return err
	}
	if kind == frameData {
		r.left = size
		return nil
	}
	body, err := r.c.body(size)
	if err != nil {
		return err
	}
	if kind != frameOutcome {
		return fmt.Errorf("unexpected frame %q", kind)
	}
	r.end = new(outcome)
	return json.Unmarshal(body, r.end)
}

// drain reads to the end of the job.
func (r *dataReader) drain() error {
	_, err := io.Copy(io.Discard, r)
	return err
}
