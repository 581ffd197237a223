package ingest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

// piece is rows of another node's WAL that a Mirror keeps: those that a stream has from first to last. But for the head's growing it never changes.
type piece struct {
	first, last, part millstream.LSN
	size              int64

	rows    *run                // one of these
	samples *millstream.Samples // on its way to a head
	head    *metrics.Head
	logs    *segment.Reader
	metrics *metrics.Reader
	spool   *spool // where a segment is, if not in memory
}

// source adds what queries read.
func (p *piece) source(u *Unflushed) {
	switch {
	case p.rows != nil:
		u.Logs = append(u.Logs, p.rows.read())
	case p.logs != nil:
		u.Logs = append(u.Logs, p.logs)
	case p.head != nil:
		u.Metrics = append(u.Metrics, p.head)
	case p.metrics != nil:
		u.Metrics = append(u.Metrics, p.metrics)
	}
}

// spool is a file without a name. It is closed when nobody holds it any more; Mirror.mu guards the count.
type spool struct {
	file  *os.File
	holds int
}

func holdAll(pieces []*piece) {
	for _, p := range pieces {
		if p.spool != nil {
			p.spool.holds++
		}
	}
}

func dropAll(pieces []*piece) {
	for _, p := range pieces {
		if p.spool == nil {
			continue
		}
		if p.spool.holds--; p.spool.holds <= 0 {
			p.spool.file.Close()
		}
	}
}

// spoolFrom is the size of a segment from which on it is kept in a file. Most are smaller.
const spoolFrom = 256 << 10

// newPiece takes a run over. progress is called whenever some of it has come.
func newPiece(r Run, dir string, progress func(n int)) (*piece, error) {
	p := &piece{first: r.First, last: r.Last, part: r.Part}
	switch {
	case r.Batch == nil:
		return p, p.open(r, dir, progress)
	case r.Batch.Samples != nil:
		p.samples = r.Batch.Samples
	default:
		p.rows = &run{batch: r.Batch, size: int64(r.Batch.Size()), level: levelOf(r.Batch.Rows()), first: r.First, last: r.Last}
		p.size = p.rows.size
	}
	progress(r.Batch.Size())
	return p, nil
}

// open copies a segment and opens the copy.
func (p *piece) open(r Run, dir string, progress func(n int)) error {
	p.size = r.DataSize + r.IndexSize
	in := io.MultiReader(limited(r.Data, r.DataSize, progress), limited(r.Index, r.IndexSize, progress))
	at, err := p.copy(in, dir)
	if err != nil {
		return err
	}
	data, index := io.NewSectionReader(at, 0, r.DataSize), io.NewSectionReader(at, r.DataSize, r.IndexSize)
	if r.Signal == millstream.Metrics {
		p.metrics, err = metrics.Open(data, r.DataSize, index, r.IndexSize)
	} else {
		p.logs, err = segment.Open(data, r.DataSize, index, r.IndexSize)
	}
	return err
}

func (p *piece) copy(in io.Reader, dir string) (io.ReaderAt, error) {
	if p.size < spoolFrom {
		body, err := io.ReadAll(in)
		return bytes.NewReader(body), err
	}
	f, err := os.CreateTemp(dir, "rows-*")
	if err != nil {
		return nil, err
	}
	p.spool = &spool{file: f}
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	_, err = io.Copy(f, in)
	return f, err
}

// limited reads n bytes of r, no more and no fewer.
func limited(r io.Reader, n int64, progress func(n int)) io.Reader {
	return &exactReader{r: r, left: n, progress: progress}
}

type exactReader struct {
	r        io.Reader
	left     int64
	progress func(n int)
}

func (x *exactReader) Read(b []byte) (int, error) {
	if x.left == 0 {
		return 0, io.EOF
	}
	n, err := x.r.Read(b[:min(int64(len(b)), x.left)])
	x.left -= int64(n)
	x.progress(n)
	switch {
	case err == io.EOF && x.left > 0:
		err = io.ErrUnexpectedEOF
	case err == io.EOF:
		err = nil // the next call says it
	}
	return n, err
}

// errMisfit: what is kept was cut in another way than what came. Reading everything anew mends it.
var errMisfit = errors.New("unflushed rows do not fit those that are kept")

// above leaves out the pieces that a snapshot has in segments; false if one lies across the position.
func above(pieces []*piece, position millstream.LSN) ([]*piece, bool) {
	i := 0
	for i < len(pieces) && pieces[i].last <= position {
		i++
	}
	return pieces[i:], i == len(pieces) || pieces[i].first > position
}

// segmentsOf are the last positions of the segments.
func segmentsOf(pieces []*piece) (out []millstream.LSN) {
	for _, p := range pieces {
		if p.logs != nil || p.metrics != nil {
			out = append(out, p.last)
		}
	}
	return out
}

// joinPiece adds a piece to others, in a new slice.
func joinPiece(pieces []*piece, p *piece) ([]*piece, error) {
	n := len(pieces)
	switch {
	case p.logs != nil || p.metrics != nil:
		return replaced(pieces, p)
	case n > 0 && pieces[n-1].last >= p.first:
		return nil, errMisfit
	case p.rows != nil:
		return joinRows(pieces, p), nil
	}
	return joinSamples(pieces, p)
}

// replaced puts a segment in the place of what it holds.
func replaced(pieces []*piece, p *piece) ([]*piece, error) {
	out := make([]*piece, 0, len(pieces)+1)
	placed := false
	for _, q := range pieces {
		if q.first > p.last && !placed {
			out, placed = append(out, p), true
		}
		switch {
		case q.last < p.first || q.first > p.last:
			out = append(out, q)
		case q.first < p.first || q.last > p.last:
			return nil, errMisfit
		}
	}
	if !placed {
		out = append(out, p)
	}
	return out, nil
}

// joinRows adds a batch of records, merging it with small ones of its part as the writer does.
func joinRows(pieces []*piece, p *piece) []*piece {
	from := len(pieces)
	for from > 0 && pieces[from-1].rows != nil && pieces[from-1].part == p.part {
		from--
	}
	tail := make([]*run, 0, len(pieces)-from+1)
	for _, q := range pieces[from:] {
		tail = append(tail, q.rows)
	}
	tail, _, _ = merged(tail, p.rows)
	out := slices.Clone(pieces[:from])
	for i, t := range tail {
		if from+i < len(pieces) && pieces[from+i].rows == t {
			out = append(out, pieces[from+i])
		} else {
			out = append(out, &piece{first: t.first, last: t.last, part: p.part, size: t.size, rows: t})
		}
	}
	return out
}

// joinSamples adds a batch of samples to the head of its part.
func joinSamples(pieces []*piece, p *piece) ([]*piece, error) {
	grown := &piece{first: p.first, last: p.last, part: p.part}
	out := slices.Clone(pieces)
	if n := len(out); n > 0 && out[n-1].head != nil && out[n-1].part == p.part {
		grown.first, grown.head = out[n-1].first, out[n-1].head
		out = out[:n-1]
	} else {
		grown.head = metrics.NewHead()
	}
	if _, err := grown.head.Append(p.samples); err != nil {
		return nil, err
	}
	grown.size = grown.head.Size()
	return append(out, grown), nil
}
