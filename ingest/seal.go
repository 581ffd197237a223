package ingest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

// local is a segment in this node's buffer directory. One of logs and metrics is set.
type local struct {
	rows             int64
	minTime, maxTime int64 // ns
	dataSum          string
	indexSum         string
	data, index      place
	logs             *segment.Reader
	metrics          *metrics.Reader
}

func (l *local) size() int64 { return l.data.n + l.index.n }

// place is a stretch of a file that becomes, or became, an object.
type place struct {
	object *object
	off, n int64
}

// object is a local file on its way to the object store.
type object struct {
	name, ext string // of the key, see (*Writer).key
	file      *os.File
	size      int64
	key       string // set once it is uploaded
	uploaded  time.Time
}

func (p place) reader() *io.SectionReader { return io.NewSectionReader(p.object.file, p.off, p.n) }

// sealJob turns a part's rows in memory into a local segment.
type sealJob struct {
	r    *bufferRange
	sb   *streamBuffer
	part *part
}

// seal hands a part to the workers. If they are far behind it stays in memory and the flush encodes it.
func (w *Writer) seal(j *sealJob) {
	j.r.seals.Add(1)
	w.room.beginSeal(j.part.size)
	select {
	case w.seals <- j:
	default:
		w.room.endSeal(j.sb.stream, j.part.size, -1)
		j.r.seals.Done()
	}
}

func (w *Writer) sealLoop() {
	defer w.workers.Done()
	for j := range w.seals {
		l, err := w.encodeBatches(j.r, batchesOf(j.part.runs))
		if err != nil {
			w.metrics.sealFailures.Inc()
			w.log.Warn("could not seal buffered rows; they stay in memory", "stream", j.sb.stream, "error", err)
			w.room.endSeal(j.sb.stream, j.part.size, -1)
			j.r.seals.Done()
			continue
		}
		w.mu.Lock()
		j.part.sealed, j.part.runs = l, nil
		j.sb.memory -= j.part.size
		j.sb.disk += l.size()
		w.mu.Unlock()
		w.room.endSeal(j.sb.stream, j.part.size, l.size())
		w.metrics.seals.Inc()
		j.r.seals.Done()
	}
}

// encodeBatches writes a segment into files of its own.
func (w *Writer) encodeBatches(r *bufferRange, batches []*millstream.Batch) (*local, error) {
	return w.writeLocal(r, func(data, index io.Writer) (segment.Info, error) {
		return segment.Encode(data, index, batches, segment.Options{})
	})
}

// writeLocal makes two files that belong to the range, lets write fill them and opens the result.
func (w *Writer) writeLocal(r *bufferRange, write func(data, index io.Writer) (segment.Info, error)) (*local, error) {
	data, err := w.newObject(r)
	if err != nil {
		return nil, err
	}
	index, err := w.newObject(r)
	if err != nil {
		return nil, err
	}
	dw, iw := bufio.NewWriterSize(data.file, 256<<10), bufio.NewWriterSize(index.file, 64<<10)
	info, err := write(dw, iw)
	if err == nil {
		err = dw.Flush()
	}
	if err == nil {
		err = iw.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("write a local segment: %w", err)
	}
	data.size, index.size = info.DataSize, info.IndexSize
	return openLocal(info, place{data, 0, info.DataSize}, place{index, 0, info.IndexSize})
}

func openLocal(info segment.Info, data, index place) (*local, error) {
	rd, err := segment.Open(data.reader(), data.n, index.reader(), index.n)
	if err != nil {
		return nil, fmt.Errorf("open a local segment: %w", err)
	}
	return &local{
		rows: info.Rows, minTime: info.MinTime, maxTime: info.MaxTime, dataSum: info.DataSum, indexSum: info.IndexSum, data: data, index: index, logs: rd,
	}, nil
}

// newObject makes a file that the range owns.
func (w *Writer) newObject(r *bufferRange) (*object, error) {
	f, err := os.CreateTemp(w.cfg.BufferDir, "segment-*")
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	r.files = append(r.files, f)
	w.mu.Unlock()
	return &object{file: f}, nil
}

// pack is one object that many small segments of an organization and signal share: each segment's data, then its index.
type pack struct {
	object *object
	out    *bufio.Writer
	at     int64
	index  bytes.Buffer
}

func (p *pack) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	p.at += int64(n)
	return n, err
}

// add writes one segment and tells where it is. The bytes are in the file only after finish.
func (p *pack) add(write func(data, index io.Writer) error) (data, index place, err error) {
	p.index.Reset()
	start := p.at
	if err := write(p, &p.index); err != nil {
		return place{}, place{}, err
	}
	data = place{p.object, start, p.at - start}
	start = p.at
	if _, err := p.Write(p.index.Bytes()); err != nil {
		return place{}, place{}, err
	}
	return data, place{p.object, start, p.at - start}, nil
}

func (p *pack) finish() error {
	p.object.size = p.at
	return p.out.Flush()
}
