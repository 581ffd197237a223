package ingest

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

const (
	// sealRows and sealSize end a stream's run in memory: it is sealed to a local segment.
	sealRows = 64 << 10
	sealSize = 32 << 20
	// mergeFan small batches at the end of a run are merged into one, so that a stream of single records becomes few batches and each row is copied about
	// log(rows)/log(mergeFan) times.
	mergeFan   = 16
	maxLevel   = 3 // batches of 16³ rows and more are left alone
	mergeBytes = 8 << 20
)

type rangeState uint8

const (
	open      rangeState = iota // takes rows
	frozen                      // complete: one flush, whose outcome is not known yet
	published                   // in the catalog; kept while a query may still need it
)

// bufferRange holds the rows of one WAL range (from, to]. Ranges follow each other without gap or overlap; each is published as a whole.
// Its fields are guarded by Writer.mu but for sum (insertMu while open) and the build's results (the flusher's own).
type bufferRange struct {
	from, to    millstream.LSN // to grows while the range is open
	state       rangeState
	epoch       uint64 // of its publish
	publishedAt time.Time
	streams     map[millstream.StreamID]*streamBuffer
	files       []*os.File
	sum         *blake3.Hasher
	seals       sync.WaitGroup // seals under way

	built   bool
	objects []*object
}

// streamBuffer holds one stream's rows of a range, in LSN order: parts, then the tail; after the build whole alone.
type streamBuffer struct {
	org    millstream.OrgID
	stream millstream.StreamID
	signal millstream.Signal
	fields map[string]millstream.Field

	first, last millstream.LSN // of the writes that brought its rows

	parts    []*part
	tail     []*run
	tailRows int
	tailSize int64
	head     *metrics.Head // of a metrics stream, which has neither parts nor tail
	whole    *local
	built    *local // written into a pack that is not complete yet; the flusher's own

	memory, disk int64 // what room counts for it
	version      int64 // of the schema at publish
	gone         bool  // the stream was deleted
	metadata     []millstream.Metadata
}

// part is a run that is complete: in memory until it is sealed.
type part struct {
	first, last millstream.LSN
	runs        []*run
	size        int64
	sealed      *local
}

// run is a batch in memory, the rows of one or more writes. Its level grows with its rows.
type run struct {
	batch *millstream.Batch
	size  int64
	level int

	first, last millstream.LSN
	writes      []write // what it was merged of; nil: one write

	once   sync.Once
	source segment.Source
}

// read is the batch as a source, made when the first query asks.
func (t *run) read() segment.Source {
	t.once.Do(func() { t.source = segment.Memory(t.batch) })
	return t.source
}

// write says where the rows of a write end in a run.
type write struct {
	lsn  millstream.LSN
	rows int32
}

// above gives the rows of the writes above a position.
func (t *run) above(lsn millstream.LSN) *millstream.Batch {
	i, _ := slices.BinarySearchFunc(t.writes, lsn+1, func(w write, lsn millstream.LSN) int { return cmp.Compare(w.lsn, lsn) })
	if i == 0 {
		return t.batch
	}
	return rowsFrom(t.batch, int(t.writes[i-1].rows))
}

func batchesOf(runs []*run) []*millstream.Batch {
	out := make([]*millstream.Batch, len(runs))
	for i, t := range runs {
		out[i] = t.batch
	}
	return out
}

// logged is a batch that is in the log.
type logged struct {
	batch *millstream.Batch
	sum   uint32 // of its payload
	size  int64  // that room counts for it
}

func newRange(from millstream.LSN) *bufferRange {
	return &bufferRange{from: from, to: from, streams: map[millstream.StreamID]*streamBuffer{}, sum: blake3.New()}
}

// checksum identifies the content of the range: the place, id and payload of each frame.
func (r *bufferRange) checksum() string { return hex.EncodeToString(r.sum.Sum(nil)) }

// discard closes and removes the range's files. Nobody may read it any more.
func (r *bufferRange) discard() {
	for _, f := range r.files {
		f.Close()
		os.Remove(f.Name())
	}
	r.files = nil
}

// insert adds rows to a range that the caller alone adds to, and makes them visible. Items have consecutive LSNs from first on.
func (w *Writer) insert(r *bufferRange, first millstream.LSN, items ...logged) {
	for i, it := range items {
		lsn := first + millstream.LSN(i)
		r.add(lsn, it)
		if it.batch.Samples != nil {
			w.insertSamples(r, lsn, it)
		} else {
			w.insertRows(r, lsn, it)
		}
		if w.room.half() || w.room.halfStream(it.batch.Stream) {
			w.kickFlush()
		}
	}
}

func (r *bufferRange) add(lsn millstream.LSN, it logged) {
	var b [12]byte
	binary.LittleEndian.PutUint64(b[:], uint64(lsn))
	binary.LittleEndian.PutUint32(b[8:], it.sum)
	r.sum.Write(b[:])
	r.sum.Write(it.batch.ID[:])
	r.sum.Write([]byte(it.batch.Stream))
}

// buffer finds or makes the stream's buffer. The caller holds mu.
func (r *bufferRange) buffer(b *millstream.Batch) *streamBuffer {
	sb := r.streams[b.Stream]
	if sb == nil {
		sb = &streamBuffer{org: b.Org, stream: b.Stream, signal: b.Signal, fields: map[string]millstream.Field{}}
		if b.Samples != nil {
			sb.head = metrics.NewHead()
		}
		r.streams[b.Stream] = sb
	}
	return sb
}

func (w *Writer) insertSamples(r *bufferRange, lsn millstream.LSN, it logged) {
	w.mu.Lock()
	sb := r.buffer(it.batch)
	w.mu.Unlock()
	before := sb.head.Size()
	rejected, err := sb.head.Append(it.batch.Samples)
	if err != nil || rejected > 0 { // a decoder has checked them; only damage gets here
		w.metrics.undecodable.Inc()
		w.log.Error("samples could not be added", "lsn", lsn, "stream", it.batch.Stream, "rejected", rejected, "error", err)
	}
	size := sb.head.Size() - before
	w.mu.Lock()
	sb.memory += size
	sb.reach(lsn)
	r.to = lsn
	if err == nil {
		w.recent.add(lsn, it.batch, sb.head)
	}
	w.mu.Unlock()
	w.room.resize(it.batch.Stream, size-it.size)
}

func (w *Writer) insertRows(r *bufferRange, lsn millstream.LSN, it logged) {
	w.mu.Lock()
	sb := r.buffer(it.batch)
	w.mu.Unlock()
	for i := range it.batch.Columns {
		sb.see(fieldOf(&it.batch.Columns[i]))
	}
	tail, before, after := merged(sb.tail, &run{batch: it.batch, size: it.size, level: levelOf(it.batch.Rows()), first: lsn, last: lsn})
	w.mu.Lock()
	sb.tail = tail
	sb.tailRows += it.batch.Rows()
	sb.tailSize += it.size + after - before
	sb.memory += it.size + after - before
	sb.reach(lsn)
	r.to = lsn
	job := w.cut(r, sb)
	w.mu.Unlock()
	if after != before {
		w.room.resize(it.batch.Stream, after-before)
	}
	if job != nil {
		w.seal(job)
	}
}

// reach notes the position of a write. The caller holds mu.
func (sb *streamBuffer) reach(lsn millstream.LSN) {
	if sb.first == 0 {
		sb.first = lsn
	}
	sb.last = lsn
}

func (sb *streamBuffer) see(f millstream.Field) {
	old, ok := sb.fields[f.Name]
	switch {
	case !ok:
		f.Name = strings.Clone(f.Name)
		sb.fields[f.Name] = f
	case teaches(old, f):
		sb.fields[f.Name] = old.Join(f)
	}
}

// cut turns a tail that is long enough into a part to be sealed. The caller holds mu.
func (w *Writer) cut(r *bufferRange, sb *streamBuffer) *sealJob {
	if sb.tailRows < w.sealRows && sb.tailSize < sealSize {
		return nil
	}
	p := &part{first: sb.tail[0].first, last: sb.last, runs: sb.tail, size: sb.tailSize}
	sb.parts = append(sb.parts, p)
	sb.tail, sb.tailRows, sb.tailSize = nil, 0, 0
	return &sealJob{r: r, sb: sb, part: p}
}

func levelOf(rows int) int {
	level := 0
	for n := mergeFan; n <= rows && level < maxLevel; n *= mergeFan {
		level++
	}
	return level
}

// merged appends a run and merges small ones at the end. It returns a new tail, for readers hold the old one, and the sizes of what was merged and of the result.
func merged(tail []*run, last *run) (out []*run, before, after int64) {
	out = append(tail[:len(tail):len(tail)], last)
	for {
		n, size := 0, int64(0)
		top := out[len(out)-1].level
		for i := len(out) - 1; i >= 0 && out[i].level <= top; i-- {
			n++
			size += out[i].size
		}
		if top >= maxLevel || n < mergeFan || size > mergeBytes {
			return out, before, after
		}
		r := joined(out[len(out)-n:])
		r.level = top + 1
		before, after = before+size, after+r.size
		out = append(out[:len(out)-n:len(out)-n], r)
	}
}

// joined is the rows of several runs as one.
func joined(runs []*run) *run {
	b := concat(batchesOf(runs))
	r := &run{batch: b, size: int64(b.Size()), first: runs[0].first, last: runs[len(runs)-1].last}
	rows := int32(0)
	for _, t := range runs {
		if t.writes == nil {
			r.writes = append(r.writes, write{t.last, rows + int32(t.batch.Rows())})
		}
		for _, x := range t.writes {
			r.writes = append(r.writes, write{x.lsn, rows + x.rows})
		}
		rows += int32(t.batch.Rows())
	}
	return r
}
