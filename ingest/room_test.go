package ingest

import (
	"testing"
	"time"
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
