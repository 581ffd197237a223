package ingest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

// A replay that waits for a seal must hear of its failure, or it would wait for ever: no other seal may follow.
func TestFailedSealWakes(t *testing.T) {
	r := newRoom(1<<20, 1<<20)
	r.take("s", 400<<10)
	r.beginSeal(400 << 10)
	freed, sealing, high := r.pressure()
	if !sealing || !high {
		t.Fatalf("sealing %v, high %v", sealing, high)
	}
	r.endSeal("s", 400<<10, -1)
	select {
	case <-freed:
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
	if _, sealing, high := r.pressure(); sealing || !high {
		t.Errorf("afterwards sealing %v, high %v", sealing, high)
	}
}

// What senders say of their metrics is held until the flush: as any other data it takes room, though it is no record, and gives it back.
func TestDescriptionsTakeRoom(t *testing.T) {
	s := newSite(t)
	w := s.start()
	said := &millstream.Samples{}
	for i := range 1000 {
		said.Metadata = append(said.Metadata, millstream.Metadata{Name: fmt.Sprintf("m%d", i), Type: "gauge", Help: strings.Repeat("h", 1000)})
	}
	for range 2 { // what is said again takes no more
		s.append(&millstream.Batch{Org: testOrg, Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: said})
		if got := w.Buffered(); got < 1_000_000 || got > 1_500_000 {
			t.Errorf("%d bytes are buffered for a million", got)
		}
	}
	s.flush()
	if got := w.Buffered(); got != 0 {
		t.Errorf("%d bytes are buffered after the flush", got)
	}
}
