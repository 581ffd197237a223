package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/metadata"

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

// Into is a peer as it takes writes into one WAL. If the peer holds another one, as a node does whose data directory was replaced, it takes nothing.
type Into struct {
	*Client
	WAL millstream.WALID // "": whichever the peer holds
}

// Write is (*Client).Write into the WAL.
func (i Into) Write(ctx context.Context, batches ...*millstream.Batch) (repeated int, err error) {
	if i.WAL != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, keyWAL, string(i.WAL))
	}
	return i.Client.Write(ctx, batches...)
}

// Write is (*ingest.Writer).Write on the peer. Unavailable means that the peer took nothing, unless errors.Is(err, wal.ErrUnknown): then it may have, and only
// the same batches with the same ids may be sent again, to it alone. What was not handed to a connection was certainly not taken.
//
// Batches that are too large for one call go in several, one after the other. Each batch has its own id, so nothing is lost by that; but once the first of
// these calls was answered, the failure of a later one is unknown, as the Write as a whole then is neither taken nor not taken.
func (c *Client) Write(ctx context.Context, batches ...*millstream.Batch) (repeated int, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	requests, err := encode(batches, c.limits)
	if err != nil {
		return 0, err
	}
	for i, req := range requests {
		again, err := c.write(ctx, req)
		if err != nil {
			if i > 0 && !errors.Is(err, wal.ErrUnknown) {
				err = unknown(err, "a part of the write was taken by %s and the rest was not", c.peer)
			}
			return repeated, err
		}
		repeated += again
	}
	return repeated, nil
}

// limits are the sizes of what is sent, in bytes.
type limits struct {
	batch   int // encoded
	message int
}

// encode makes the requests of a Write: one, unless it is too large for a message.
func encode(batches []*millstream.Batch, l limits) ([]outgoing, error) {
	buf := buffers{}.Get(0)
	requests := []outgoing{{buf}}
	for _, b := range batches {
		start, size := len(*buf), 0
		if *buf, size = appendPart(*buf, b); size > l.batch {
			return nil, millstream.Errorf(millstream.TooLarge, "a batch of %d bytes: at most %d; send smaller requests", size, l.batch)
		}
		if start > 0 && len(*buf) > l.message {
			next := buffers{}.Get(0)
			*next = append(*next, (*buf)[start:]...)
			*buf = (*buf)[:start]
			requests, buf = append(requests, outgoing{next}), next
		}
	}
	return requests, nil
}

func (c *Client) write(ctx context.Context, req outgoing) (repeated int, err error) {
	c.writes.Add(1)
	end := c.begin(ctx, "Intake/Write")
	tracked, sent := withSent(ctx)
	reply := new(rpcpb.WriteReply)
	err = c.conn.Invoke(tracked, rpcpb.Intake_Write_FullMethodName, req, reply)
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
