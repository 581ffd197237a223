package rpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// Limits of calls whose callers set none.
const (
	writeTimeout  = 30 * time.Second
	flushTimeout  = 2 * time.Minute
	statusTimeout = 2 * time.Second
)

// buffers are what batches are encoded into. gRPC copies them before a call returns.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// keepBuffer is the largest one worth keeping.
const keepBuffer = 4 << 20

// Write is (*ingest.Writer).Write on the peer. Unavailable means that the peer took nothing, unless errors.Is(err, wal.ErrUnknown): then it may have, and only
// the same batches with the same ids may be sent again, to it alone. What was not handed to a connection was certainly not taken.
//
// Batches that are too large for one call go in several, one after the other. Each batch has its own id, so nothing is lost by that; but once the first of
// these calls was answered, the failure of a later one is unknown, as the Write as a whole then is neither taken nor not taken.
func (c *Client) Write(ctx context.Context, batches ...*millstream.Batch) (repeated int, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	buf := buffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= keepBuffer {
			buffers.Put(buf)
		}
	}()
	parts, err := encode(batches, buf, c.limits.batch)
	if err != nil {
		return 0, err
	}
	for taken := false; len(parts) > 0; taken = true {
		n := fitting(parts, c.limits.message)
		again, err := c.write(ctx, parts[:n])
		if err != nil {
			if taken && !errors.Is(err, wal.ErrUnknown) {
				err = unknown(err, "a part of the write was taken by %s and the rest was not", c.peer)
			}
			return repeated, err
		}
		repeated += again
		parts = parts[n:]
	}
	return repeated, nil
}

// limits are the sizes of what is sent, in bytes.
type limits struct {
	batch   int // encoded
	message int
}

// encode makes the parts of a request in one buffer.
func encode(batches []*millstream.Batch, buf *[]byte, most int) ([]*rpcpb.Part, error) {
	b, ends := (*buf)[:0], make([]int, len(batches))
	for i, batch := range batches {
		start := len(b)
		b = batch.AppendTo(b)
		if ends[i] = len(b); len(b)-start > most {
			return nil, millstream.Errorf(millstream.TooLarge, "a batch of %d bytes: at most %d; send smaller requests", len(b)-start, most)
		}
	}
	*buf = b
	parts, start := make([]*rpcpb.Part, len(batches)), 0
	for i, batch := range batches {
		parts[i] = &rpcpb.Part{Org: string(batch.Org), Name: batch.Name, Batch: b[start:ends[i]:ends[i]]}
		start = ends[i]
	}
	return parts, nil
}

// fitting is how many of the parts one message has room for: at least one.
func fitting(parts []*rpcpb.Part, most int) int {
	size := 0
	for i, p := range parts {
		size += len(p.GetBatch()) + len(p.GetOrg()) + len(p.GetName()) + 32 // of tags and lengths
		if size > most && i > 0 {
			return i
		}
	}
	return len(parts)
}

func (c *Client) write(ctx context.Context, parts []*rpcpb.Part) (repeated int, err error) {
	c.writes.Add(1)
	end := c.begin(ctx, "Intake/Write")
	tracked, sent := withSent(ctx)
	reply, err := c.intake.Write(tracked, &rpcpb.WriteRequest{Parts: parts})
	f, code := fault(err)
	if out := end(err); out != nil {
		switch {
		case f != nil, refused(code):
			return 0, out // the peer itself says what it did
		case !sent.Load():
			return 0, &millstream.Error{Kind: millstream.Unavailable, Msg: c.peer + " cannot be reached", RetryAfter: 1, Err: out}
		}
		return 0, unknown(out, "%s did not say whether it took the write", c.peer)
	}
	return int(reply.GetRepeated()), nil
}

// unknown is a failure after which the write may have been taken.
func unknown(cause error, format string, args ...any) error {
	return millstream.Wrap(millstream.Unavailable, errors.Join(wal.ErrUnknown, cause), format, args...)
}

// Flush publishes everything that the peer has acknowledged.
func (c *Client) Flush(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	end := c.begin(ctx, "Intake/Flush")
	_, err := c.intake.Flush(bounded, &rpcpb.FlushRequest{})
	return end(err)
}
