package ingest

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
)

const (
	// recentTTL is how long a stream's batches of samples are kept after a reader on another node asked for the last time.
	recentTTL = time.Minute
	// recentShare is the part of the buffer that they may take in all. A reader that comes when what it lacks is gone gets all of the head as a segment.
	recentShare = 8
)

// recent keeps the last batches of samples of the streams that other nodes read: a head packs samples by series, so that it cannot say which are new to a
// reader. On a node that nobody asks it keeps nothing. It is guarded by Writer.mu.
type recent struct {
	limit, size int64
	streams     map[millstream.StreamID]*recentBatches
}

// recentBatches has every batch above from, in order.
type recentBatches struct {
	asked   time.Time
	from    millstream.LSN
	batches []recentBatch
}

type recentBatch struct {
	lsn   millstream.LSN
	batch *millstream.Batch
	size  int64
}

// since gives the stream's batches above a position; false if it does not have all. From now on it keeps the batches above to, where the WAL ends.
func (k *recent) since(stream millstream.StreamID, above, to millstream.LSN, now time.Time) ([]recentBatch, bool) {
	t := k.streams[stream]
	if t == nil {
		k.streams[stream] = &recentBatches{asked: now, from: to}
		return nil, false
	}
	t.asked = now
	if above < t.from {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(t.batches, above+1, func(b recentBatch, lsn millstream.LSN) int { return cmp.Compare(b.lsn, lsn) })
	return t.batches[i:], true
}

// add keeps a copy of a batch if its stream is read: one from another node shares the memory of all that came with it. The keys of its series are those of the head
// that took it, so that they take no room of their own; what is said of its metrics is the head's as well.
func (k *recent) add(lsn millstream.LSN, b *millstream.Batch, head *metrics.Head) {
	t := k.streams[b.Stream]
	if t == nil || lsn <= t.last() { // read from the log again
		return
	}
	s := b.Samples
	samples := &millstream.Samples{
		Series: head.LastKeys(), Ref: slices.Clone(s.Ref), Time: slices.Clone(s.Time), Value: slices.Clone(s.Value), Start: slices.Clone(s.Start),
		Histogram: slices.Clone(s.Histogram), Exemplars: slices.Clone(s.Exemplars),
	}
	size := int64(20*len(samples.Ref) + 8*len(samples.Start) + 16*len(samples.Series) + 256)
	for i, h := range samples.Histogram {
		samples.Histogram[i] = bytes.Clone(h)
		size += int64(len(h)) + 24
	}
	for i := range samples.Exemplars {
		e := &samples.Exemplars[i]
		e.Labels = strings.Clone(e.Labels)
		size += int64(len(e.Labels)) + 64
	}
	kept := *b
	kept.Samples = samples
	t.batches = append(t.batches, recentBatch{lsn, &kept, size})
	k.size += size
	n := 0
	for n < len(t.batches) && k.size > k.limit {
		k.size -= t.batches[n].size
		n++
	}
	if n > 0 {
		t.cut(n)
	}
}

func (t *recentBatches) last() millstream.LSN {
	if n := len(t.batches); n > 0 {
		return t.batches[n-1].lsn
	}
	return t.from
}

// cut drops the oldest batches.
func (t *recentBatches) cut(n int) {
	t.from = t.batches[n-1].lsn
	t.batches = slices.Clone(t.batches[n:])
}

// reap drops what is published, and the streams that nobody has asked for in a while.
func (k *recent) reap(position millstream.LSN, now time.Time) {
	for id, t := range k.streams {
		n := len(t.batches)
		if gone := now.Sub(t.asked) > recentTTL; gone {
			delete(k.streams, id)
		} else if n = slices.IndexFunc(t.batches, func(b recentBatch) bool { return b.lsn > position }); n < 0 {
			n = len(t.batches)
		}
		for _, b := range t.batches[:n] {
			k.size -= b.size
		}
		if n > 0 {
			t.cut(n)
		}
	}
}
