package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Snapshot is one consistent view of the catalog: what was published, and per WAL up to where. Rows of a WAL above its position are unflushed.
type Snapshot struct {
	At       time.Time // the database's clock
	Streams  []Stream
	Segments []millstream.Segment // live ones that overlap the range, by stream and time
	WALs     []WALState           // every registered WAL that was not discarded
}

// WALState is a WAL as the registry knows it. LastPublish is zero before the first.
type WALState struct {
	ID          millstream.WALID
	Node        millstream.NodeID
	Addr        string
	Incarnation int64
	Position    millstream.LSN
	Clean       bool
	LastPublish time.Time
}

// Snapshot reads the streams, their live segments that overlap r, and the WAL registry in one statement. What live manifests hold is read after it: that never changes. A key with an empty name stands for all streams of its
// signal; streams that do not exist are not in the answer. org counts, not the organization of the keys. Schemas are shared between snapshots: do not change them.
func (s *Store) Snapshot(ctx context.Context, org millstream.OrgID, keys []millstream.StreamKey, r millstream.TimeRange) (Snapshot, error) {
	p := db.SnapshotParams{OrgID: string(org), StartTime: r.Start, EndTime: r.End, DayAfterEnd: dayAfter(r.End), Signals: make([]int16, len(keys)), Names: make([]string, len(keys))}
	for i, k := range keys {
		p.Signals[i], p.Names[i] = int16(k.Signal), k.Name
	}
	known := s.schemas.known(org, keys)
	for id, schema := range known {
		p.KnownIds, p.KnownVersions = append(p.KnownIds, string(id)), append(p.KnownVersions, schema.Version)
	}
	rows, err := read(ctx, func(ctx context.Context) ([]db.SnapshotRow, error) { return s.q.Snapshot(ctx, p) })
	if err != nil {
		return Snapshot{}, fail(err, "take a snapshot of the catalog")
	}
	out := Snapshot{Segments: make([]millstream.Segment, 0, len(rows))}
	var manifests []string
	for i := range rows {
		if rows[i].Kind == manifestRow {
			manifests = append(manifests, rows[i].ID)
		} else if err := out.add(&rows[i], org, known); err != nil {
			return Snapshot{}, fmt.Errorf("read a row of the catalog's snapshot: %w", err)
		}
	}
	err = s.eachSealed(ctx, s.q, manifests, func(g millstream.Segment) error {
		if r.Overlaps(g.MinTime, g.MaxTime) {
			out.Segments = append(out.Segments, g)
		}
		return nil
	})
	if err != nil {
		return Snapshot{}, fail(err, "read the manifests of a snapshot")
	}
	slices.SortFunc(out.Segments, func(a, b millstream.Segment) int {
		return cmp.Or(strings.Compare(string(a.Stream), string(b.Stream)), cmp.Compare(a.MinTime, b.MinTime), strings.Compare(string(a.ID), string(b.ID)))
	})
	s.schemas.remember(out.Streams)
	return out, nil
}

// dayAfter is a time that a segment which begins before t and spans a day at most ends before. The statement compares halves, hence the two nanoseconds.
func dayAfter(t int64) int64 {
	return min(t, math.MaxInt64-day-2) + day + 2
}

// Kinds of a snapshot's rows.
const (
	clockRow = iota
	streamRow
	walRow
	segmentRow
	manifestRow
)

func (s *Snapshot) add(r *db.SnapshotRow, org millstream.OrgID, known map[millstream.StreamID]millstream.Schema) error {
	switch r.Kind {
	case clockRow:
		clock := struct{ At time.Time }{}
		err := json.Unmarshal([]byte(r.Doc), &clock)
		s.At = clock.At
		return err
	case streamRow:
		st, err := snapshotStream(r.Doc, org, known)
		s.Streams = append(s.Streams, st)
		return err
	case walRow:
		w, err := snapshotWAL(r.Doc)
		s.WALs = append(s.WALs, w)
		return err
	}
	s.Segments = append(s.Segments, segmentOf(db.Segment{
		ID: r.ID, OrgID: string(org), StreamID: r.StreamID, Signal: r.Signal, MinTime: r.MinTime, MaxTime: r.MaxTime, RowCount: r.RowCount, Level: r.Level, SchemaVersion: r.SchemaVersion,
		DataKey: r.DataKey, DataOffset: r.DataOffset, DataLength: r.DataLength, DataSum: r.DataSum,
		IndexKey: r.IndexKey, IndexOffset: r.IndexOffset, IndexLength: r.IndexLength, IndexSum: r.IndexSum, WalID: r.WalID, WalFrom: r.WalFrom, WalTo: r.WalTo, CreatedAt: deref(r.CreatedAt),
	}))
	return nil
}

func snapshotStream(doc string, org millstream.OrgID, known map[millstream.StreamID]millstream.Schema) (Stream, error) {
	var d struct {
		ID, Name      string
		Signal        int16
		Version       int64
		Fields        json.RawMessage // null: the schema is the known one
		RetentionDays int             `json:"retention_days"`
		WriteMode     string          `json:"write_mode"`
		IndexedFields []string        `json:"indexed_fields"`
		MaxFields     int             `json:"max_fields"`
		CreatedAt     time.Time       `json:"created_at"`
	}
	if err := json.Unmarshal([]byte(doc), &d); err != nil {
		return Stream{}, err
	}
	st := Stream{
		ID: millstream.StreamID(d.ID), Key: millstream.StreamKey{Org: org, Signal: millstream.Signal(d.Signal), Name: d.Name},
		RetentionDays: d.RetentionDays, WriteMode: d.WriteMode, IndexedFields: unescapeAll(d.IndexedFields), MaxFields: d.MaxFields, CreatedAt: d.CreatedAt.UTC(),
	}
	if string(d.Fields) == "null" {
		st.Schema = known[st.ID]
		return st, nil
	}
	fields, err := decodeFields(d.Fields)
	st.Schema = millstream.Schema{Version: d.Version, Fields: fields}
	return st, err
}

func snapshotWAL(doc string) (WALState, error) {
	var d struct {
		ID, Node, Addr        string
		Incarnation, Position int64
		Clean                 bool
		PublishedAt           *time.Time `json:"published_at"`
	}
	err := json.Unmarshal([]byte(doc), &d)
	return WALState{
		ID: millstream.WALID(d.ID), Node: millstream.NodeID(d.Node), Addr: d.Addr, Incarnation: d.Incarnation, Position: millstream.LSN(d.Position), Clean: d.Clean, LastPublish: deref(d.PublishedAt),
	}, err
}

// maxSchemas bounds the cache; with the limits on fields it is some 100 MB at the very worst and a few in practice.
const maxSchemas = 256

// schemaCache remembers the schemas of streams that were queried last, so that a query neither transfers nor decodes one that has not changed. The snapshot
// compares versions, so an entry is never stale.
type schemaCache struct {
	mu    sync.Mutex
	byKey map[millstream.StreamKey]Stream
}

// known returns what is remembered of the streams of the given names.
func (c *schemaCache) known(org millstream.OrgID, keys []millstream.StreamKey) map[millstream.StreamID]millstream.Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[millstream.StreamID]millstream.Schema, len(keys))
	for _, k := range keys {
		k.Org = org
		if st, ok := c.byKey[k]; ok {
			out[st.ID] = st.Schema
		}
	}
	return out
}

func (c *schemaCache) remember(streams []Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil || len(c.byKey)+len(streams) > maxSchemas {
		c.byKey = make(map[millstream.StreamKey]Stream, len(streams)) // rare: a node queries few streams at a time
	}
	if len(streams) > maxSchemas {
		return
	}
	for _, st := range streams {
		c.byKey[st.Key] = st
	}
}
