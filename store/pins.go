package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Pin says which WAL takes one part (stream) of a request with an Idempotency-Key.
type Pin struct {
	Org      millstream.OrgID
	Key      string
	BodyHash [16]byte
	Part     millstream.StreamID
	WAL      millstream.WALID
}

const (
	maxPinGroup = 512              // requests a statement
	pinTimeout  = 10 * time.Second // of a statement, which serves many requests and so does not end with one of them
)

// pinGroup gathers the requests that come while a statement is on its way; the next statement takes them together.
type pinGroup struct {
	mu      sync.Mutex
	waiting []*pinWait
	running bool // a goroutine of runPins exists; it ends when nobody waits
}

// pinWait is one request on its way through a group. row and err are valid once done is closed.
type pinWait struct {
	pins []Pin
	key  []byte
	done chan struct{}
	row  db.PinRow
	err  error
}

// Pin keeps the pins of one request, all of the same organization, key and body, and returns them as they are kept: a part that was pinned before keeps its first
// WAL. A key that came with another body within 15 minutes is Conflict. Concurrent calls share statements, so that they share the cost of a commit.
func (s *Store) Pin(ctx context.Context, pins []Pin) ([]Pin, error) {
	if len(pins) == 0 {
		return nil, nil
	}
	for _, p := range pins {
		if p.Org != pins[0].Org || p.Key != pins[0].Key || p.BodyHash != pins[0].BodyHash {
			return nil, millstream.Errorf(millstream.Internal, "the pins of one request differ in organization, key or body")
		}
		for _, id := range []string{string(p.Org), string(p.Part), string(p.WAL)} {
			if err := uuid.Validate(id); err != nil { // it would fail the whole group
				return nil, millstream.Wrap(millstream.Internal, err, "pin the idempotency key: id %q", id)
			}
		}
	}
	sum := blake3.Sum256([]byte(pins[0].Key))
	w := &pinWait{pins: pins, key: sum[:16], done: make(chan struct{})}
	s.joinPins(w)
	select {
	case <-ctx.Done():
		return nil, fail(ctx.Err(), "pin the idempotency key")
	case <-w.done:
		if w.err != nil {
			return nil, fail(w.err, "pin the idempotency key")
		}
		return w.kept()
	}
}

func (s *Store) joinPins(w *pinWait) {
	g := &s.pins
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, w)
	if !g.running {
		g.running = true
		go s.runPins()
	}
}

func (s *Store) runPins() {
	for group := s.pins.take(); group != nil; group = s.pins.take() {
		s.pinGroup(group)
		for _, w := range group {
			close(w.done)
		}
	}
}

// take removes the next group; nil when nobody waits, and then the caller must end. A key that is in the group already waits for the next one: a statement
// cannot change a row twice.
func (g *pinGroup) take() []*pinWait {
	g.mu.Lock()
	defer g.mu.Unlock()
	type id struct {
		org millstream.OrgID
		key string
	}
	seen := map[id]bool{}
	var group, rest []*pinWait
	for _, w := range g.waiting {
		if k := (id{w.pins[0].Org, string(w.key)}); len(group) < maxPinGroup && !seen[k] {
			seen[k] = true
			group = append(group, w)
			continue
		}
		rest = append(rest, w)
	}
	g.waiting, g.running = rest, group != nil
	return group
}

// pinGroup runs one statement for a group and gives each request its row or the error.
func (s *Store) pinGroup(group []*pinWait) {
	slices.SortFunc(group, func(a, b *pinWait) int {
		return cmp.Or(strings.Compare(string(a.pins[0].Org), string(b.pins[0].Org)), bytes.Compare(a.key, b.key))
	})
	var p db.PinParams
	for _, w := range group {
		parts, wals := w.lists()
		p.Orgs, p.Keys, p.Hashes = append(p.Orgs, string(w.pins[0].Org)), append(p.Keys, w.key), append(p.Hashes, w.pins[0].BodyHash[:])
		p.Parts, p.Wals = append(p.Parts, parts), append(p.Wals, wals)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pinTimeout)
	defer cancel()
	// Repeating it changes nothing: what was kept stays.
	rows, err := read(ctx, func(ctx context.Context) ([]db.PinRow, error) { return s.q.Pin(ctx, p) })
	if err == nil && len(rows) != len(group) {
		err = millstream.Errorf(millstream.Internal, "%d requests got %d rows", len(group), len(rows))
	}
	for i, w := range group {
		if w.err = err; err == nil {
			w.row = rows[i]
		}
	}
}

// lists joins the request's parts, each once, and their WALs.
func (w *pinWait) lists() (parts, wals string) {
	var ps, ws []string
	for _, p := range w.pins {
		if !slices.Contains(ps, string(p.Part)) {
			ps, ws = append(ps, string(p.Part)), append(ws, string(p.WAL))
		}
	}
	return strings.Join(ps, ","), strings.Join(ws, ",")
}

// kept turns the row into the answer.
func (w *pinWait) kept() ([]Pin, error) {
	if !bytes.Equal(w.row.BodyHash, w.pins[0].BodyHash[:]) {
		return nil, millstream.Errorf(millstream.Conflict, "the Idempotency-Key was used with another body: use a new key for each request")
	}
	out := slices.Clone(w.pins)
	for i := range out {
		at := slices.Index(w.row.Parts, string(out[i].Part))
		if at < 0 || at >= len(w.row.Wals) {
			return nil, millstream.Errorf(millstream.Internal, "part %s was not pinned", out[i].Part)
		}
		out[i].WAL = millstream.WALID(w.row.Wals[at])
	}
	return out, nil
}
