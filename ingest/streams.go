package ingest

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

const (
	// streamTTL is how long a stream is used without asking the catalog again. Asking is what notices that a stream was deleted or its limit changed;
	// Forget is faster.
	streamTTL = 30 * time.Second
	// forgottenTTL is how long the fields of a forgotten stream are remembered; by then they are in the catalog, or the stream is gone.
	forgottenTTL = 10 * time.Minute
	// catalogTimeout bounds a look-up that a write waits for.
	catalogTimeout = 5 * time.Second
	// refreshPatience is how long a write waits for the answer if the stream is known: less than a router waits for a write, or an outage of the database would cost one
	// write a stream.
	refreshPatience = 250 * time.Millisecond
)

// streams caches what the catalog knows of the streams that are written to. A known stream can be written while the database is away.
type streams struct {
	catalog   ensurer
	maxFields int
	now       func() time.Time
	asking    singleflight.Group

	mu    sync.RWMutex
	byKey map[millstream.StreamKey]*stream
	byID  map[millstream.StreamID]*stream
	// forgotten streams are asked for anew, and if they still are what they were, they know their fields again: the catalog learns of a field only when its
	// first rows are published, and until then the limit of fields must hold, too.
	forgotten map[millstream.StreamID]*stream
	listed    listing
}

// Streams resolves the streams of keyed requests on a node without a Writer.
type Streams struct{ known *streams }

// NewStreams resolves by asking c, *store.Store, and remembers for a while what it said.
func NewStreams(c ensurer, now func() time.Time) *Streams {
	return &Streams{newStreams(c, 0, now)}
}

// Resolve finds or creates a stream and gives its id.
func (s *Streams) Resolve(ctx context.Context, k millstream.StreamKey) (millstream.StreamID, error) {
	st, err := s.known.resolve(ctx, k)
	if err != nil {
		return "", err
	}
	return st.id, nil
}

// Forget drops what is remembered of a stream that was changed or deleted.
func (s *Streams) Forget(id millstream.StreamID) { s.known.forget(id) }

// stream is one stream's id and fields. Fields only grow: what was seen in memory joins what the catalog has.
type stream struct {
	id  millstream.StreamID
	key millstream.StreamKey

	mu         sync.Mutex
	asked      time.Time
	max        int
	fields     map[string]millstream.Field
	registered map[string]millstream.Field // as the catalog has them
	version    int64
}

func newStreams(c ensurer, maxFields int, now func() time.Time) *streams {
	return &streams{catalog: c, maxFields: maxFields, now: now, byKey: map[millstream.StreamKey]*stream{}, byID: map[millstream.StreamID]*stream{},
		forgotten: map[millstream.StreamID]*stream{}}
}

func (s *streams) resolve(ctx context.Context, k millstream.StreamKey) (*stream, error) {
	s.mu.RLock()
	known := s.byKey[k]
	s.mu.RUnlock()
	if known != nil && !known.due(s.now()) {
		return known, nil
	}
	answer := s.asking.DoChan(string(k.Org)+"\x00"+k.Signal.String()+"\x00"+k.Name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), catalogTimeout)
		defer cancel()
		st, err := s.catalog.EnsureStream(ctx, k)
		if err != nil {
			return nil, err
		}
		return s.learn(st), nil
	})
	var patience <-chan time.Time // for ever without anything to go on with
	switch {
	case known != nil:
		patience = time.After(refreshPatience)
	case s.isListed(k):
		patience = time.After(listedPatience)
	}
	var err error
	select {
	case r := <-answer:
		if r.Err == nil {
			return r.Val.(*stream), nil
		}
		err = r.Err
	case <-patience: // the answer is for the next write
	}
	if known == nil && unanswered(err) {
		known = s.fromList(k)
	}
	switch {
	case !unanswered(err):
		return nil, err
	case known != nil:
		return known, nil
	}
	return nil, &millstream.Error{
		Kind: millstream.Unavailable, Msg: "stream " + k.Name + " is not known yet and the database cannot be asked", RetryAfter: 5, Err: err,
	}
}

// unanswered says whether the catalog gave no answer; nil counts as none.
func unanswered(err error) bool {
	switch millstream.KindOf(err) {
	case millstream.Unavailable, millstream.Timeout, millstream.Internal, millstream.Canceled:
		return true
	}
	return err == nil
}

// due says whether the catalog should be asked again; only one caller a while is told so, the others go on with what is known.
func (t *stream) due(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.asked) < streamTTL {
		return false
	}
	t.asked = now.Add(-streamTTL + time.Second)
	return true
}

// learn keeps what the catalog said. Another id under a known name means that the stream was deleted and made anew.
func (s *streams) learn(st store.Stream) *stream {
	s.mu.Lock()
	t := s.byKey[st.Key]
	if t == nil || t.id != st.ID {
		if t != nil {
			delete(s.byID, t.id)
		}
		if t = s.forgotten[st.ID]; t == nil {
			t = &stream{id: st.ID, key: st.Key, fields: map[string]millstream.Field{}}
		}
		delete(s.forgotten, st.ID)
		s.byKey[st.Key], s.byID[st.ID] = t, t
	}
	t.mu.Lock() // before others find it: with no limit of fields yet it would put all of theirs into overflow
	s.mu.Unlock()
	defer t.mu.Unlock()
	t.asked = s.now()
	if t.max = st.MaxFields; t.max == 0 {
		t.max = s.maxFields
	}
	t.register(st.Schema)
	return t
}

// register keeps the schema as the catalog has it. The caller holds mu.
func (t *stream) register(sc millstream.Schema) {
	if t.registered != nil && sc.Version < t.version {
		return
	}
	t.version = sc.Version
	t.registered = make(map[string]millstream.Field, len(sc.Fields))
	for _, f := range sc.Fields {
		t.registered[f.Name] = f
		if old, ok := t.fields[f.Name]; ok {
			f = f.Join(old)
		}
		t.fields[f.Name] = f
	}
}

// forget drops a stream from the cache: it was deleted or changed.
func (s *streams) forget(id millstream.StreamID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed.drop(id)
	t := s.byID[id]
	if t == nil {
		return
	}
	delete(s.byID, id)
	delete(s.byKey, t.key)
	for old, f := range s.forgotten {
		if f.age(s.now()) > forgottenTTL {
			delete(s.forgotten, old)
		}
	}
	s.forgotten[id] = t
}

// age is how long ago the catalog was asked for the stream.
func (t *stream) age(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.asked)
}

func (s *streams) lookup(id millstream.StreamID) *stream {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// admit checks a batch against the stream's fields: types join, and columns beyond the field limit move into the overflow column. It returns the batch to
// store, b itself if nothing moves, and the number of values that moved.
func (t *stream) admit(b *millstream.Batch) (*millstream.Batch, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var over []int
	for i := range b.Columns {
		f := fieldOf(&b.Columns[i])
		old, ok := t.fields[f.Name]
		switch {
		case !ok && len(t.fields) >= t.max && f.Name != millstream.OverflowField:
			over = append(over, i)
		case !ok:
			f.Name = strings.Clone(f.Name) // the batch's lies in what the batch came in
			t.fields[f.Name] = f
		case teaches(old, f):
			t.fields[f.Name] = old.Join(f)
		}
	}
	if len(over) == 0 {
		return b, 0
	}
	return overflow(b, over)
}

// unregistered are the fields of which the catalog knows less than fs, and the version of what it knows.
func (t *stream) unregistered(fs map[string]millstream.Field) (missing []millstream.Field, version int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, f := range fs {
		if old, ok := t.registered[name]; !ok || !covers(old, f) {
			missing = append(missing, f)
		}
	}
	return missing, t.version
}

// teaches says whether f adds to what is known of a field; it is cheap where nothing is new, which is almost always.
func teaches(known, f millstream.Field) bool {
	return known.Type != f.Type || f.WideInt && !known.WideInt || f.Conflict && !covers(known, f)
}

// covers says whether joining f to what is known changes nothing.
func covers(known, f millstream.Field) bool {
	j := known.Join(f)
	return j.Type == known.Type && j.WideInt == known.WideInt && j.Conflict == known.Conflict && len(j.Seen) == len(known.Seen)
}

// seenOnly are the lists of one type, shared because nobody changes them.
var seenOnly = func() (lists [millstream.String + 1][]millstream.Type) {
	for t := range lists {
		lists[t] = []millstream.Type{millstream.Type(t)}
	}
	return lists
}()

// fieldOf is what a column tells of its field.
func fieldOf(c *millstream.Column) millstream.Field {
	f := millstream.Field{Name: c.Name, Type: c.Type, Seen: c.Seen, Conflict: len(c.Seen) > 1}
	if f.Seen == nil {
		f.Seen = seenOnly[c.Type]
	}
	if c.Type == millstream.Int64 {
		for _, v := range c.Ints {
			if v > millstream.MaxExactInt || v < -millstream.MaxExactInt {
				f.WideInt = true
				break
			}
		}
	}
	return f
}

// overflow moves columns into one that holds a JSON object a row, together with what a decoder's builder has put there already. (A sender's own field of
// that name comes under another, see Builder.)
func overflow(b *millstream.Batch, over []int) (*millstream.Batch, int) {
	move := make(map[int]bool, len(over))
	for _, i := range over {
		move[i] = true
	}
	for i := range b.Columns {
		if b.Columns[i].Name == millstream.OverflowField {
			move[i] = true
		}
	}
	out := *b
	out.Columns = nil
	var from []*millstream.Column
	for i := range b.Columns {
		if move[i] {
			from = append(from, &b.Columns[i])
		} else {
			out.Columns = append(out.Columns, b.Columns[i])
		}
	}
	col, moved := overflowColumn(from, b.Rows())
	out.Columns = append(out.Columns, col)
	return &out, moved
}

// members is the inside of the object that a decoder's builder made of a record's fields beyond its own limit; they were counted there.
func members(c *millstream.Column, i int) (string, bool) {
	if c.Name != millstream.OverflowField || c.Type != millstream.String {
		return "", false
	}
	text := c.Str(i)
	if len(text) < 3 || text[0] != '{' || text[len(text)-1] != '}' {
		return "", false
	}
	return text[1 : len(text)-1], true
}

func overflowColumn(from []*millstream.Column, rows int) (millstream.Column, int) {
	col := millstream.Column{Name: millstream.OverflowField, Type: millstream.String, Offsets: make([]uint32, 1, rows+1), Valid: make([]uint64, (rows+63)/64)}
	moved := 0
	for i := range rows {
		start := len(col.Bytes)
		for _, c := range from {
			if !c.IsValid(i) {
				continue
			}
			sep := byte(',')
			if len(col.Bytes) == start {
				sep = '{'
			}
			if inside, ok := members(c, i); ok {
				col.Bytes = append(append(col.Bytes, sep), inside...)
				continue
			}
			col.Bytes = append(col.Bytes, sep)
			col.Bytes = millstream.AppendJSONString(col.Bytes, c.Name)
			col.Bytes = append(col.Bytes, ':')
			col.Bytes = appendJSON(col.Bytes, c, i)
			moved++
		}
		if len(col.Bytes) > start {
			col.Bytes = append(col.Bytes, '}')
			col.Valid[i>>6] |= 1 << (i & 63)
		}
		col.Offsets = append(col.Offsets, uint32(len(col.Bytes)))
	}
	return col, moved
}

func appendJSON(dst []byte, c *millstream.Column, i int) []byte {
	switch c.Type {
	case millstream.Bool:
		return strconv.AppendBool(dst, c.Ints[i] != 0)
	case millstream.Int64:
		return strconv.AppendInt(dst, c.Ints[i], 10)
	case millstream.Double:
		if f := c.Floats[i]; !math.IsNaN(f) && !math.IsInf(f, 0) {
			return append(dst, millstream.FormatDouble(f)...)
		}
	}
	return millstream.AppendJSONString(dst, c.Text(i))
}
