package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// rowsServer tells of the node's unflushed rows.
type rowsServer struct {
	rpcpb.UnimplementedRowsServer
	s *Server
}

// Runs implements the service.
func (r *rowsServer) Runs(req *rpcpb.RunsRequest, stream grpc.ServerStreamingServer[rpcpb.RunsReply]) error {
	if r.s.Rows == nil {
		return r.s.lacks("intake")
	}
	w := newRunsWriter(stream)
	defer w.close()
	reach, err := r.s.Rows.Runs(stream.Context(), fromAsk(req), w.write)
	if err != nil {
		return err
	}
	w.reply.Reach = &rpcpb.Reach{Incarnation: reach.Incarnation, To: uint64(reach.To)}
	return w.send()
}

func fromAsk(req *rpcpb.RunsRequest) ingest.Ask {
	a := ingest.Ask{WAL: millstream.WALID(req.GetWal()), Incarnation: req.GetIncarnation(), Above: millstream.LSN(req.GetAbove())}
	for _, s := range req.GetStreams() {
		ask := ingest.StreamAsk{Stream: millstream.StreamID(s.GetStream()), Have: millstream.LSN(s.GetHave())}
		for _, lsn := range s.GetSegments() {
			ask.Segments = append(ask.Segments, millstream.LSN(lsn))
		}
		a.Streams = append(a.Streams, ask)
	}
	return a
}

func toAsk(a ingest.Ask) *rpcpb.RunsRequest {
	req := &rpcpb.RunsRequest{Wal: string(a.WAL), Incarnation: a.Incarnation, Above: uint64(a.Above)}
	for _, s := range a.Streams {
		ask := &rpcpb.StreamAsk{Stream: string(s.Stream), Have: uint64(s.Have)}
		for _, lsn := range s.Segments {
			ask.Segments = append(ask.Segments, uint64(lsn))
		}
		req.Streams = append(req.Streams, ask)
	}
	return req
}

// maxRuns is how many bytes of runs travel in one message. Small runs share one, large ones take several.
const maxRuns = 1 << 20

// runsWriter collects runs into messages and sends them at the reader's pace.
type runsWriter struct {
	stream grpc.ServerStreamingServer[rpcpb.RunsReply]
	reply  rpcpb.RunsReply
	buf    *[maxRuns]byte // content that the reply's pieces share
	used   int
	batch  *[]byte // an encoded batch
}

var runBuffers = sync.Pool{New: func() any { return new([maxRuns]byte) }}

func newRunsWriter(stream grpc.ServerStreamingServer[rpcpb.RunsReply]) *runsWriter {
	return &runsWriter{stream: stream, buf: runBuffers.Get().(*[maxRuns]byte), batch: buffers{}.Get(0)}
}

func (w *runsWriter) close() {
	runBuffers.Put(w.buf)
	buffers{}.Put(w.batch)
}

func (w *runsWriter) write(r ingest.Run) error {
	run := &rpcpb.Run{
		Stream: string(r.Stream), Signal: uint32(r.Signal), First: uint64(r.First), Last: uint64(r.Last), Part: uint64(r.Part),
		Segment: r.Batch == nil, Size: uint64(r.DataSize), IndexSize: uint64(r.IndexSize),
	}
	if r.Batch != nil {
		*w.batch = r.Batch.AppendTo((*w.batch)[:0])
		r.Data, r.DataSize, r.IndexSize = bytes.NewReader(*w.batch), int64(len(*w.batch)), 0
		run.Size, run.IndexSize = uint64(r.DataSize), 0
	}
	w.reply.Pieces = append(w.reply.Pieces, &rpcpb.Piece{Run: run})
	if err := w.content(r.Data, r.DataSize); err != nil {
		return err
	}
	return w.content(r.Index, r.IndexSize)
}

// content adds n bytes as pieces, and sends what fills a message.
func (w *runsWriter) content(from io.Reader, n int64) error {
	for n > 0 {
		piece := w.buf[w.used:min(maxRuns, int64(w.used)+n)]
		if _, err := io.ReadFull(from, piece); err != nil {
			return fmt.Errorf("read a run: %w", err)
		}
		w.reply.Pieces = append(w.reply.Pieces, &rpcpb.Piece{Content: piece})
		w.used += len(piece)
		n -= int64(len(piece))
		if w.used == maxRuns {
			if err := w.send(); err != nil {
				return err
			}
		}
	}
	return nil
}

// send passes on what was collected. gRPC has encoded it when Send returns.
func (w *runsWriter) send() error {
	err := w.stream.Send(&w.reply)
	w.reply.Reset()
	w.used = 0
	if ctx := w.stream.Context(); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Runs is (*ingest.Writer).Runs on the peer. An answer that broke off is an error; what was emitted before it is good.
func (c *Client) Runs(ctx context.Context, a ingest.Ask, emit func(ingest.Run) error) (ingest.Reach, error) {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	end := c.begin(ctx, "Rows/Runs")
	stream, err := c.rows.Runs(call, toAsk(a))
	if err != nil {
		return ingest.Reach{}, end(err)
	}
	r := &runsReader{recv: stream.Recv}
	err = r.each(emit)
	switch {
	case r.err != nil && !errors.Is(r.err, io.EOF):
		return ingest.Reach{}, end(r.err)
	case err != nil: // emit's, which ends the call
		_ = end(errAbandoned)
		return ingest.Reach{}, err
	case r.reach == nil:
		return ingest.Reach{}, end(io.ErrUnexpectedEOF)
	}
	_ = end(nil)
	return ingest.Reach{Incarnation: r.reach.GetIncarnation(), To: millstream.LSN(r.reach.GetTo())}, nil
}

// errAbandoned is how a call is counted that the caller's own side ended.
var errAbandoned = status.Error(codes.Canceled, "abandoned")

// runsReader takes messages apart again.
type runsReader struct {
	recv   func() (*rpcpb.RunsReply, error)
	pieces []*rpcpb.Piece
	reach  *rpcpb.Reach
	err    error // of recv; io.EOF is the end
}

var errMixed = millstream.Errorf(millstream.Internal, "the runs of another node do not follow each other as they should")

// take is the next piece, nil after the last.
func (r *runsReader) take() *rpcpb.Piece {
	for len(r.pieces) == 0 {
		var m *rpcpb.RunsReply
		if m, r.err = r.recv(); r.err != nil {
			return nil
		}
		r.pieces = m.GetPieces()
		if m.GetReach() != nil {
			r.reach = m.GetReach()
		}
	}
	p := r.pieces[0]
	r.pieces = r.pieces[1:]
	return p
}

// each calls emit with the runs until the answer's end, which r.err tells from another.
func (r *runsReader) each(emit func(ingest.Run) error) error {
	for p := r.take(); p != nil; p = r.take() {
		if p.GetRun() == nil {
			return errMixed
		}
		if err := r.one(p.GetRun(), emit); err != nil {
			return err
		}
	}
	return nil
}

func (r *runsReader) one(h *rpcpb.Run, emit func(ingest.Run) error) error {
	run := ingest.Run{
		Stream: millstream.StreamID(h.GetStream()), Signal: millstream.Signal(h.GetSignal()),
		First: millstream.LSN(h.GetFirst()), Last: millstream.LSN(h.GetLast()), Part: millstream.LSN(h.GetPart()),
	}
	data, index := &content{r: r, left: h.GetSize()}, &content{r: r, left: h.GetIndexSize()}
	if h.GetSegment() {
		run.Data, run.DataSize, run.Index, run.IndexSize = data, int64(h.GetSize()), index, int64(h.GetIndexSize())
	} else {
		b, err := readBatch(data, h.GetSize())
		if err != nil {
			return err
		}
		b.Stream, run.Batch = run.Stream, b
	}
	if err := emit(run); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, io.MultiReader(data, index)) // what emit did not read
	return err
}

// readBatch makes room as the bytes come, not as they were announced.
func readBatch(from io.Reader, size uint64) (*millstream.Batch, error) {
	buf := bytes.NewBuffer(make([]byte, 0, min(size, maxRuns)+bytes.MinRead))
	if _, err := buf.ReadFrom(from); err != nil {
		return nil, err
	}
	return millstream.DecodeBatch(buf.Bytes())
}

// content reads one stretch of a run.
type content struct {
	r     *runsReader
	left  uint64
	piece []byte
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	if len(c.piece) == 0 {
		next := c.r.take()
		switch {
		case next == nil:
			return 0, io.ErrUnexpectedEOF
		case next.GetRun() != nil || len(next.GetContent()) == 0 || uint64(len(next.GetContent())) > c.left:
			return 0, errMixed
		}
		c.piece = next.GetContent()
	}
	n := copy(p, c.piece)
	c.piece = c.piece[n:]
	c.left -= uint64(n)
	return n, nil
}
