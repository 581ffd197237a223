package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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
}

type modelState struct {
	system       string
	incarnations map[millstream.NodeID]int64
	wals         map[millstream.WALID]modelWAL
	streams      map[millstream.StreamKey]store.Stream
	segments     map[millstream.SegmentID]millstream.Segment
	ranges       map[string]string
	pins         map[string]store.Pin
	metadata     map[string]millstream.Metadata
}

type modelWAL struct {
	holder      millstream.NodeID
	incarnation int64
	identity    string
	position    millstream.LSN
	clean       bool
}

func newModel() *model {
	return &model{state: modelState{
		system: "1", incarnations: map[millstream.NodeID]int64{}, wals: map[millstream.WALID]modelWAL{}, streams: map[millstream.StreamKey]store.Stream{},
		segments: map[millstream.SegmentID]millstream.Segment{}, ranges: map[string]string{}, pins: map[string]store.Pin{}, metadata: map[string]millstream.Metadata{},
	}}
}

func (s modelState) clone() modelState {
	s.incarnations, s.wals, s.streams = maps.Clone(s.incarnations), maps.Clone(s.wals), maps.Clone(s.streams)
	s.segments, s.ranges, s.pins = maps.Clone(s.segments), maps.Clone(s.ranges), maps.Clone(s.pins)
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
	n := m.state.system
	m.state = old.clone()
	m.state.system = n + "'"
	for k, v := range m.state.streams { // in this model streams survive: their loss is not what is tested
		m.state.streams[k] = v
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
	m.state.incarnations[n] = max(m.state.incarnations[n]+1, atLeast+1)
	return m.state.incarnations[n]
}

func (m *model) beat(n millstream.NodeID, incarnation int64) store.Beat {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := store.Beat{SystemID: m.state.system, Positions: map[millstream.WALID]millstream.LSN{}}
	b.Fenced, b.Forgotten = m.state.incarnations[n] > incarnation, m.state.incarnations[n] < incarnation
	for id, w := range m.state.wals {
		b.Positions[id] = w.position
	}
	return b
}

func (m *model) fence(n millstream.NodeID, incarnation int64) error {
	switch have := m.state.incarnations[n]; {
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
	s, ok := m.state.streams[k]
	if !ok {
		s = store.Stream{ID: millstream.StreamID(uuid.NewString()), Key: k}
		m.state.streams[k] = s
	}
	return s, nil
}

func (m *model) RegisterFields(_ context.Context, id millstream.StreamID, fields []millstream.Field) (millstream.Schema, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return millstream.Schema{}, errDown
	}
	for k, s := range m.state.streams {
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
		m.state.streams[k] = s
		return s.Schema, nil
	}
	return millstream.Schema{}, millstream.Errorf(millstream.NotFound, "no stream %s", id)
}

func (m *model) UpsertMetadata(_ context.Context, _ millstream.OrgID, ms []millstream.Metadata) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range ms {
		m.state.metadata[x.Name] = x
	}
	return nil
}

func (m *model) Restore(_ context.Context, t store.WALTake) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errDown
	}
	m.state.incarnations[t.Node] = max(m.state.incarnations[t.Node], t.Incarnation)
	if _, ok := m.state.wals[t.ID]; !ok {
		m.state.wals[t.ID] = modelWAL{holder: t.Node, incarnation: t.Incarnation, identity: t.Identity}
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
	w, ok := m.state.wals[t.ID]
	if !ok && t.First <= 1 {
		w, ok = modelWAL{identity: t.Identity}, true
	}
	switch {
	case !ok, t.Last > w.position && t.First > w.position+1:
		return 0, millstream.Wrap(millstream.Conflict, store.ErrMissing, "frames of the WAL are missing")
	case w.identity != t.Identity:
		return 0, millstream.Wrap(millstream.Conflict, store.ErrIdentity, "another directory")
	case t.Last < w.position:
		return 0, millstream.Wrap(millstream.Conflict, store.ErrShort, "the WAL ends below its position")
	}
	w.holder, w.incarnation, w.clean = t.Node, t.Incarnation, false
	m.state.wals[t.ID] = w
	return w.position, nil
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
	if err == nil && m.losePublish > 0 {
		m.losePublish--
		return 0, 0, errDown
	}
	if err == nil {
		m.publishes = append(m.publishes, o)
	}
	return o, at, err
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
	w, ok := m.state.wals[f.WAL]
	switch {
	case !ok:
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrNoWAL, "no WAL")
	case !m.noFence && (w.holder != f.Node || w.incarnation != f.Incarnation):
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrFenced, "fenced")
	case w.position < f.From:
		return store.Behind, w.position, nil
	case w.position > f.From || f.From == f.To:
		return m.compare(w, f)
	}
	w.position, w.clean = f.To, f.Clean
	m.state.wals[f.WAL] = w
	m.state.ranges[rangeKey(f)] = f.Checksum
	for _, s := range f.Segments {
		for _, st := range m.state.streams {
			if st.ID == s.Stream {
				m.state.segments[s.ID] = s
			}
		}
	}
	return store.Published, f.To, nil
}

func (m *model) compare(w modelWAL, f millstream.Flush) (store.Outcome, millstream.LSN, error) {
	if w.position < f.To {
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrGap, "the position %d lies inside (%d, %d]", w.position, f.From, f.To)
	}
	if f.From < f.To && m.state.ranges[rangeKey(f)] != f.Checksum {
		return 0, 0, millstream.Wrap(millstream.Conflict, store.ErrMismatch, "another content")
	}
	if w.clean = f.Clean && f.To == w.position; w.clean {
		m.state.wals[f.WAL] = w
	}
	return store.Already, w.position, nil
}

func (m *model) Pin(_ context.Context, pins []store.Pin) ([]store.Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, errDown
	}
	out := make([]store.Pin, len(pins))
	for i, p := range pins {
		if old, ok := m.state.pins[string(p.Org)+p.Key]; ok && old.BodyHash != p.BodyHash {
			return nil, millstream.Errorf(millstream.Conflict, "the key was used for another body")
		}
		m.state.pins[string(p.Org)+p.Key] = p
		k := string(p.Org) + p.Key + "\x00" + string(p.Part)
		if _, ok := m.state.pins[k]; !ok {
			m.state.pins[k] = p
		}
		out[i] = m.state.pins[k]
	}
	return out, nil
}

// snapshot is what one statement of a query reads.
func (m *model) snapshot(stream millstream.StreamID) (segments []millstream.Segment, positions map[millstream.WALID]millstream.LSN) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.state.segments {
		if s.Stream == stream {
			segments = append(segments, s)
		}
	}
	positions = map[millstream.WALID]millstream.LSN{}
	for id, w := range m.state.wals {
		positions[id] = w.position
	}
	return segments, positions
}

func (m *model) deleteStream(id millstream.StreamID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.state.streams, func(_ millstream.StreamKey, s store.Stream) bool { return s.ID == id })
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

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }
