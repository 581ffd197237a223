package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// model is the catalog's protocol in memory: the rules of publishing, in the order in which the database checks them. It also misbehaves on demand.
type model struct {
	mu    sync.Mutex
	state modelState

	down        bool // nothing is reached
	losePublish int  // so many publishes are done, but their answers are lost
	late        []millstream.Flush
	delay       int // so many publishes are kept in late, to be done at a bad moment
	noFence     bool
	publishes   []store.Outcome
	file        string // where the state is kept, "" for memory only
}

type modelState struct {
	System       string
	Incarnations map[millstream.NodeID]int64
	Wals         map[millstream.WALID]modelWAL
	Streams      map[millstream.StreamKey]store.Stream
	Segments     map[millstream.SegmentID]millstream.Segment
	Ranges       map[string]string
	Pins         map[string]store.Pin
	Metadata     map[string]millstream.Metadata
}

type modelWAL struct {
	Holder      millstream.NodeID
	Incarnation int64
	Identity    string
	Position    millstream.LSN
	Clean       bool
}

func newModel() *model {
	return &model{state: modelState{
		System: "1", Incarnations: map[millstream.NodeID]int64{}, Wals: map[millstream.WALID]modelWAL{}, Streams: map[millstream.StreamKey]store.Stream{},
		Segments: map[millstream.SegmentID]millstream.Segment{}, Ranges: map[string]string{}, Pins: map[string]store.Pin{}, Metadata: map[string]millstream.Metadata{},
	}}
}

func (s modelState) clone() modelState {
	s.Incarnations, s.Wals, s.Streams = maps.Clone(s.Incarnations), maps.Clone(s.Wals), maps.Clone(s.Streams)
	s.Segments, s.Ranges, s.Pins = maps.Clone(s.Segments), maps.Clone(s.Ranges), maps.Clone(s.Pins)
	return s
}

var errDown = &millstream.Error{Kind: millstream.Unavailable, Msg: "the database cannot be reached"}

func (m *model) save() modelState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.clone()
}

// failover puts an older state in place, under another history.
func (m *model) failover(old modelState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.state.System
	m.state = old.clone()
	m.state.System = n + "'"
	for k, v := range m.state.Streams { // in this model streams survive: their loss is not what is tested
		m.state.Streams[k] = v
	}
}

func (m *model) setDown(v bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = v
}

func (m *model) start(n millstream.NodeID, atLeast int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Incarnations[n] = max(m.state.Incarnations[n]+1, atLeast+1)
	m.keep()
	return m.state.Incarnations[n]
}

func (m *model) beat(n millstream.NodeID, incarnation int64) store.Beat {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := store.Beat{SystemID: m.state.System, Positions: map[millstream.WALID]millstream.LSN{}}
	b.Fenced, b.Forgotten = m.state.Incarnations[n] > incarnation, m.state.Incarnations[n] < incarnation
	for id, w := range m.state.Wals {
		b.Positions[id] = w.Position
	}
	return b
}

func (m *model) fence(n millstream.NodeID, incarnation int64) error {
	switch have := m.state.Incarnations[n]; {
	case m.noFence:
		return nil
	case have > incarnation:
		return millstream.Wrap(millstream.Conflict, store.ErrFenced, "fenced")
	case have < incarnation:
		return millstream.Wrap(millstream.Unavailable, store.ErrForgotten, "forgotten")
	}
	return nil
}

func (m *model) EnsureStream(_ context.Context, k millstream.StreamKey) (store.Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return store.Stream{}, errDown
	}
	s, ok := m.state.Streams[k]
	if !ok {
		s = store.Stream{ID: millstream.StreamID(uuid.NewString()), Key: k}
		m.state.Streams[k] = s
		m.keep()
	}
	return s, nil
}

func (m *model) ListStreams(context.Context, int) ([]store.Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, errDown
	}
	return slices.Collect(maps.Values(m.state.Streams)), nil
}

func (m *model) RegisterFields(_ context.Context, id millstream.StreamID, fields []millstream.Field) (millstream.Schema, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return millstream.Schema{}, errDown
	}
	for k, s := range m.state.Streams {
		if s.ID != id {
			continue
		}
		fs := slices.Clone(s.Schema.Fields)
		for _, f := range fields {
			if i := slices.IndexFunc(fs, func(o millstream.Field) bool { return o.Name == f.Name }); i >= 0 {
				fs[i] = fs[i].Join(f)
			} else {
				fs = append(fs, f)
			}
		}
		s.Schema = millstream.Schema{Version: s.Schema.Version + 1, Fields: fs}
		m.state.Streams[k] = s
		m.keep()
		return s.Schema, nil
	}
	return millstream.Schema{}, millstream.Errorf(millstream.NotFound, "no stream %s", id)
}

func (m *model) UpsertMetadata(_ context.Context, _ millstream.OrgID, ms []millstream.Metadata) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range ms {
		m.state.Metadata[x.Name] = x
	}
	return nil
}

func (m *model) Restore(_ context.Context, t store.WALTake) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errDown
	}
	m.state.Incarnations[t.Node] = max(m.state.Incarnations[t.Node], t.Incarnation)
	if _, ok := m.state.Wals[t.ID]; !ok {
		m.state.Wals[t.ID] = modelWAL{Holder: t.Node, Incarnation: t.Incarnation, Identity: t.Identity}
	}
	return nil
}

func (m *model) TakeWAL(_ context.Context, t store.WALTake) (millstream.LSN, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return 0, errDown
	}
	if err := m.fence(t.Node, t.Incarnation); err != nil {
		return 0, err
	}
	w, ok := m.state.Wals[t.ID]
	if !ok && t.First <= 1 {
		w, ok = modelWAL{Identity: t.Identity}, true
	}
	switch {
	case !ok, t.Last > w.Position && t.First > w.Position+1:
		return 0, millstream.Wrap(millstream.Conflict, store.ErrMissing, "frames of the WAL are missing")
	case w.Identity != t.Identity:
		return 0, millstream.Wrap(millstream.Conflict, store.ErrIdentity, "another directory")
	case t.Last < w.Position:
		return 0, millstream.Wrap(millstream.Conflict, store.ErrShort, "the WAL ends below its position")
	}
	w.Holder, w.Incarnation, w.Clean = t.Node, t.Incarnation, false
	m.state.Wals[t.ID] = w
	m.keep()
	return w.Position, nil
}

func (m *model) Publish(_ context.Context, f millstream.Flush) (store.Outcome, millstream.LSN, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return 0, 0, errDown
	}
	if m.delay > 0 {
		m.delay--
		m.late = append(m.late, f)
		return 0, 0, errDown
	}
	o, at, err := m.publish(f)
	m.keep()
	if err == nil && m.losePublish > 0 {
		m.losePublish--
		return 0, 0, errDown
	}
	if err == nil {
		m.publishes = append(m.publishes, o)
	}
	return o, at, err
}

// outcomes are those of the publishes so far.
func (m *model) outcomes() []store.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.publishes)
}

// arrive lets the delayed publishes happen now: statements of a process that was paused, or that was thought dead.
func (m *model) arrive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.late {
		m.publish(f)
	}
	m.late = nil
}

func rangeKey(f millstream.Flush) string { return fmt.Sprint(f.WAL, f.From, f.To) }

func (m *model) publish(f millstream.Flush) (store.Outcome, millstream.LSN, error) {
	if err := m.fence(f.Node, f.Incarnation); err != nil {
		return 0, 0, err
	}
	w, ok := m.state.Wals[f.WAL]
	switch {
	case !ok:
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrNoWAL, "no WAL")
	case !m.noFence && w.Holder == f.Node && w.Incarnation < f.Incarnation:
		return 0, 0, millstream.Wrap(millstream.Unavailable, store.ErrForgotten, "forgotten")
	case !m.noFence && (w.Holder != f.Node || w.Incarnation != f.Incarnation):
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrFenced, "fenced")
	case w.Position < f.From:
		return store.Behind, w.Position, nil
	case w.Position > f.From || f.From == f.To:
		return m.compare(w, f)
	}
	w.Position, w.Clean = f.To, f.Clean
	m.state.Wals[f.WAL] = w
	m.state.Ranges[rangeKey(f)] = f.Checksum
	for _, s := range f.Segments {
		for _, st := range m.state.Streams {
			if st.ID == s.Stream {
				m.state.Segments[s.ID] = s
			}
		}
	}
	return store.Published, f.To, nil
}

func (m *model) compare(w modelWAL, f millstream.Flush) (store.Outcome, millstream.LSN, error) {
	if w.Position < f.To {
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrGap, "the position %d lies inside (%d, %d]", w.Position, f.From, f.To)
	}
	if f.From < f.To && m.state.Ranges[rangeKey(f)] != f.Checksum {
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrMismatch, "another content")
	}
	if w.Clean = f.Clean && f.To == w.Position; w.Clean {
		m.state.Wals[f.WAL] = w
	}
	return store.Already, w.Position, nil
}

func (m *model) Pin(_ context.Context, pins []store.Pin) ([]store.Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, errDown
	}
	out := make([]store.Pin, len(pins))
	for i, p := range pins {
		if old, ok := m.state.Pins[string(p.Org)+p.Key]; ok && old.BodyHash != p.BodyHash {
			return nil, millstream.Errorf(millstream.Conflict, "the key was used for another body")
		}
		m.state.Pins[string(p.Org)+p.Key] = p
		k := string(p.Org) + p.Key + "\x00" + string(p.Part)
		if _, ok := m.state.Pins[k]; !ok {
			m.state.Pins[k] = p
		}
		out[i] = m.state.Pins[k]
	}
	return out, nil
}

// snapshot is what one statement of a query reads.
func (m *model) snapshot(stream millstream.StreamID) (segments []millstream.Segment, positions map[millstream.WALID]millstream.LSN) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.state.Segments {
		if s.Stream == stream {
			segments = append(segments, s)
		}
	}
	positions = map[millstream.WALID]millstream.LSN{}
	for id, w := range m.state.Wals {
		positions[id] = w.Position
	}
	return segments, positions
}

func (m *model) deleteStream(id millstream.StreamID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.state.Streams, func(_ millstream.StreamKey, s store.Stream) bool { return s.ID == id })
}

// mortal is a model as one process sees it: after its death nothing it says arrives.
type mortal struct {
	*model
	mu   sync.Mutex
	dead bool
}

var errDead = errors.New("the process is dead")

func (d *mortal) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

func (d *mortal) alive() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.dead
}

func (d *mortal) Publish(ctx context.Context, f millstream.Flush) (store.Outcome, millstream.LSN, error) {
	if !d.alive() {
		return 0, 0, errDead
	}
	return d.model.Publish(ctx, f)
}
