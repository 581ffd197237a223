package store

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

// MaxStreams is how many log and trace streams an organization may have.
const MaxStreams = 10000

// DefaultMaxFields is the field limit of a stream whose MaxFields is 0.
const DefaultMaxFields = 2000

// Stream is a stream with its schema and settings. Zero settings mean the organization's or the node's defaults.
type Stream struct {
	ID            millstream.StreamID
	Key           millstream.StreamKey
	Schema        millstream.Schema
	RetentionDays int
	WriteMode     string // "", wal, shards
	IndexedFields []string
	MaxFields     int
	CreatedAt     time.Time
}

// StreamSummary is a stream with what its live segments hold. Times are in ns, 0 without segments; Bytes counts data and index.
type StreamSummary struct {
	Stream
	Rows, Bytes, Segments int64
	MinTime, MaxTime      int64
	Unflushed             int64 // of the rows, those that are in no segment yet, see ingest.Live
}

// Summarize adds up what a stream's segments hold.
func Summarize(s Stream, segments []millstream.Segment) StreamSummary {
	sum := StreamSummary{Stream: s, Segments: int64(len(segments))}
	for i, g := range segments {
		sum.Rows += g.Rows
		sum.Bytes += g.Data.Length + g.Index.Length
		if i == 0 || g.MinTime < sum.MinTime {
			sum.MinTime = g.MinTime
		}
		if i == 0 || g.MaxTime > sum.MaxTime {
			sum.MaxTime = g.MaxTime
		}
	}
	return sum
}

// StreamPatch changes the settings that are not nil.
type StreamPatch struct {
	RetentionDays *int
	WriteMode     *string
	IndexedFields *[]string
	MaxFields     *int
}

// Bounds of a stream's settings.
const (
	maxRetentionDays = 36_500
	maxStreamFields  = 10_000
	maxIndexedFields = 200
	maxFieldName     = 256
)

// check refuses settings out of bounds.
func (p *StreamPatch) check() error {
	if v := p.RetentionDays; v != nil && (*v < 0 || *v > maxRetentionDays) {
		return millstream.Errorf(millstream.Invalid, "retention_days is %d, it must lie between 0 and %d", *v, maxRetentionDays)
	}
	if v := p.MaxFields; v != nil && (*v < 0 || *v > maxStreamFields) {
		return millstream.Errorf(millstream.Invalid, "max_fields is %d, it must lie between 0 and %d", *v, maxStreamFields)
	}
	if v := p.WriteMode; v != nil && *v != "" && *v != "wal" {
		return millstream.Errorf(millstream.Invalid, "write_mode is %q, it must be wal or empty", *v)
	}
	if p.IndexedFields == nil {
		return nil
	}
	if n := len(*p.IndexedFields); n > maxIndexedFields {
		return millstream.Errorf(millstream.Invalid, "indexed_fields has %d names, at most %d are allowed", n, maxIndexedFields)
	}
	for _, f := range *p.IndexedFields {
		if f == "" || len(f) > maxFieldName {
			return millstream.Errorf(millstream.Invalid, "indexed_fields has a name of %d bytes, it must have 1 to %d", len(f), maxFieldName)
		}
	}
	return nil
}

var streamName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$`)

// EnsureStream finds a stream by name or creates it. An unknown organization is NotFound; a name that is not allowed or one stream too many is Invalid.
func (s *Store) EnsureStream(ctx context.Context, k millstream.StreamKey) (Stream, error) {
	found, err := s.Stream(ctx, k)
	if millstream.KindOf(err) != millstream.NotFound {
		return found, err
	}
	if !streamName.MatchString(k.Name) {
		return Stream{}, millstream.Errorf(millstream.Invalid, "stream name %q is not allowed: use 1 to 128 of A-Z a-z 0-9 _ . - and no dot at the start", k.Name)
	}
	err = s.tx(ctx, func(q *db.Queries) error { return insertStream(ctx, q, k) })
	if err != nil {
		return Stream{}, fail(err, "create stream %s", k.Name)
	}
	return s.Stream(ctx, k)
}

func insertStream(ctx context.Context, q *db.Queries, k millstream.StreamKey) error {
	if _, err := q.LockOrganization(ctx, string(k.Org)); err != nil {
		return fail(err, "find organization %s", k.Org)
	}
	if k.Signal != millstream.Metrics {
		n, err := q.CountStreams(ctx, db.CountStreamsParams{OrgID: string(k.Org), ExceptSignal: int16(millstream.Metrics)})
		if err != nil {
			return err
		}
		if n >= MaxStreams {
			return millstream.Errorf(millstream.Invalid, "stream %s cannot be created: the organization has %d log and trace streams, the most that is allowed; delete some first", k.Name, n)
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	n, err := q.InsertStream(ctx, db.InsertStreamParams{ID: id.String(), OrgID: string(k.Org), Signal: int16(k.Signal), Name: k.Name})
	if err != nil || n == 0 {
		return err
	}
	return q.Notify(ctx, db.NotifyParams{Channel: ChannelStreams, Payload: id.String()})
}

// Stream finds a stream by name.
func (s *Store) Stream(ctx context.Context, k millstream.StreamKey) (Stream, error) {
	row, err := read(ctx, func(ctx context.Context) (db.Stream, error) {
		return s.q.StreamByKey(ctx, db.StreamByKeyParams{OrgID: string(k.Org), Signal: int16(k.Signal), Name: k.Name})
	})
	if err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return Stream{}, millstream.Wrap(millstream.NotFound, err, "there is no stream %q of signal %s", k.Name, k.Signal)
		}
		return Stream{}, fail(err, "find stream %s", k.Name)
	}
	return streamOf(row)
}

// StreamByID finds a stream by id; one that was deleted is NotFound for ever.
func (s *Store) StreamByID(ctx context.Context, id millstream.StreamID) (Stream, error) {
	row, err := read(ctx, func(ctx context.Context) (db.Stream, error) { return s.q.StreamByID(ctx, string(id)) })
	if err != nil {
		return Stream{}, fail(err, "find stream %s", id)
	}
	return streamOf(row)
}

// ListStreams lists at most so many streams of all organizations, the youngest first, without their schemas.
func (s *Store) ListStreams(ctx context.Context, most int) ([]Stream, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.ListStreamsRow, error) { return s.q.ListStreams(ctx, int32(most)) })
	if err != nil {
		return nil, fail(err, "list all streams")
	}
	out := make([]Stream, len(rows))
	for i, r := range rows {
		out[i] = Stream{ID: millstream.StreamID(r.ID), Key: millstream.StreamKey{Org: millstream.OrgID(r.OrgID), Signal: millstream.Signal(r.Signal), Name: r.Name}, MaxFields: int(r.MaxFields)}
	}
	return out, nil
}

// Streams lists an organization's streams of one signal (0: all), by signal and name.
func (s *Store) Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) ([]StreamSummary, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.StreamsRow, error) {
		return s.q.Streams(ctx, db.StreamsParams{OrgID: string(org), Signal: int16(sig)})
	})
	if err != nil {
		return nil, fail(err, "list the streams")
	}
	out := make([]StreamSummary, len(rows))
	for i, r := range rows {
		st, err := streamOf(r.Stream)
		if err != nil {
			return nil, err
		}
		out[i] = StreamSummary{Stream: st, Rows: r.RowCount, Bytes: r.Bytes, Segments: r.Segments, MinTime: r.MinTime, MaxTime: r.MaxTime}
	}
	return out, nil
}

// StreamSegments lists a stream's live segments, oldest first.
func (s *Store) StreamSegments(ctx context.Context, id millstream.StreamID) ([]millstream.Segment, error) {
	out, err := still(ctx, s, func(q *db.Queries) (out []millstream.Segment, err error) {
		rows, err := q.StreamSegments(ctx, string(id))
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			out = append(out, segmentOf(r))
		}
		manifests, err := q.StreamManifests(ctx, string(id))
		if err != nil || len(manifests) == 0 {
			return out, err
		}
		ids := make([]string, len(manifests))
		for i, m := range manifests {
			ids[i] = m.ID
		}
		err = s.eachSealed(ctx, q, ids, func(g millstream.Segment) error { out = append(out, g); return nil })
		slices.SortFunc(out, func(a, b millstream.Segment) int {
			return cmp.Or(cmp.Compare(a.MinTime, b.MinTime), cmp.Compare(a.ID, b.ID))
		})
		return out, err
	})
	return out, fail(err, "list the segments of stream %s", id)
}

// UpdateStream changes settings.
func (s *Store) UpdateStream(ctx context.Context, id millstream.StreamID, p StreamPatch, a auth.Entry) (Stream, error) {
	if err := p.check(); err != nil {
		return Stream{}, err
	}
	params := db.UpdateStreamParams{ID: string(id), RetentionDays: narrow(p.RetentionDays), WriteMode: p.WriteMode, MaxFields: narrow(p.MaxFields)}
	if p.IndexedFields != nil {
		params.IndexedFields = escapeAll(*p.IndexedFields)
	}
	var row db.Stream
	err := s.tx(ctx, func(q *db.Queries) (err error) {
		if row, err = q.UpdateStream(ctx, params); err != nil {
			return err
		}
		if err := insertAudit(ctx, q, a); err != nil {
			return err
		}
		return q.Notify(ctx, db.NotifyParams{Channel: ChannelStreams, Payload: string(id)})
	})
	if err != nil {
		return Stream{}, fail(err, "change stream %s", id)
	}
	return streamOf(row)
}

// DeleteStream removes a stream: its segments leave the catalog at once, rows of it that are still in a WAL are dropped at their flush, and a later write to the
// name makes a new stream.
func (s *Store) DeleteStream(ctx context.Context, id millstream.StreamID, a auth.Entry) error {
	err := s.tx(ctx, func(q *db.Queries) error {
		if err := q.OwnStreams(ctx); err != nil {
			return err
		}
		if _, err := q.DeleteStream(ctx, string(id)); err != nil {
			return err
		}
		if _, err := q.ExpireStream(ctx, string(id)); err != nil {
			return err
		}
		if err := q.ExpireStreamManifests(ctx, string(id)); err != nil {
			return err
		}
		if err := insertAudit(ctx, q, a); err != nil {
			return err
		}
		return q.Notify(ctx, db.NotifyParams{Channel: ChannelStreams, Payload: string(id)})
	})
	return fail(err, "delete stream %s", id)
}

// mergeTries bounds the compare-and-set: each lost round means that another writer's merge went through.
const mergeTries = 50

// MergeFields joins what a writer saw into the stream's schema. The result never narrows: a type only widens, a field never goes away. New fields beyond the
// stream's limit are left out; the caller sees which ones the returned schema lacks and keeps their values in _overflow. NotFound when the stream was deleted.
func (s *Store) MergeFields(ctx context.Context, id millstream.StreamID, fields []millstream.Field) (millstream.Schema, error) {
	return s.mergeFields(ctx, id, fields, true)
}

// RegisterFields is MergeFields without the limit, for fields that rows on disk have already.
func (s *Store) RegisterFields(ctx context.Context, id millstream.StreamID, fields []millstream.Field) (millstream.Schema, error) {
	return s.mergeFields(ctx, id, fields, false)
}

func (s *Store) mergeFields(ctx context.Context, id millstream.StreamID, fields []millstream.Field, limited bool) (millstream.Schema, error) {
	for range mergeTries {
		st, err := s.StreamByID(ctx, id)
		if err != nil {
			return millstream.Schema{}, err
		}
		limit := 0
		if limited {
			limit = cmp.Or(st.MaxFields, DefaultMaxFields)
		}
		merged, changed := joinFields(st.Schema.Fields, fields, limit)
		if !changed {
			return st.Schema, nil
		}
		swapped, err := s.swapFields(ctx, id, st.Schema.Version, merged)
		if err != nil {
			return millstream.Schema{}, fail(err, "change the schema of stream %s", id)
		}
		if swapped {
			return millstream.Schema{Version: st.Schema.Version + 1, Fields: merged}, nil
		}
	}
	return millstream.Schema{}, millstream.Errorf(millstream.Unavailable, "the schema of stream %s changes faster than it can be merged", id)
}

func (s *Store) swapFields(ctx context.Context, id millstream.StreamID, version int64, fields []millstream.Field) (swapped bool, err error) {
	text, err := encodeFields(fields)
	if err != nil {
		return false, err
	}
	err = s.tx(ctx, func(q *db.Queries) error {
		n, err := q.SwapFields(ctx, db.SwapFieldsParams{ID: string(id), Version: version, Fields: text})
		if err != nil || n == 0 {
			return err
		}
		swapped = true
		return q.Notify(ctx, db.NotifyParams{Channel: ChannelStreams, Payload: string(id)})
	})
	return swapped, err
}

func streamOf(r db.Stream) (Stream, error) {
	fields, err := decodeFields(r.Fields)
	return Stream{
		ID:     millstream.StreamID(r.ID),
		Key:    millstream.StreamKey{Org: millstream.OrgID(r.OrgID), Signal: millstream.Signal(r.Signal), Name: r.Name},
		Schema: millstream.Schema{Version: r.SchemaVersion, Fields: fields}, RetentionDays: int(r.RetentionDays), WriteMode: r.WriteMode,
		IndexedFields: unescapeAll(r.IndexedFields), MaxFields: int(r.MaxFields), CreatedAt: r.CreatedAt.UTC(),
	}, err
}

func segmentOf(r db.Segment) millstream.Segment {
	g := millstream.Segment{
		ID: millstream.SegmentID(r.ID), Org: millstream.OrgID(r.OrgID), Stream: millstream.StreamID(r.StreamID), Signal: millstream.Signal(r.Signal),
		MinTime: r.MinTime, MaxTime: r.MaxTime, Rows: r.RowCount, Level: int(r.Level), SchemaVersion: r.SchemaVersion, Written: r.CreatedAt.UnixNano(),
		Data:  millstream.Extent{Key: r.DataKey, Offset: r.DataOffset, Length: r.DataLength, Checksum: r.DataSum},
		Index: millstream.Extent{Key: r.IndexKey, Offset: r.IndexOffset, Length: r.IndexLength, Checksum: r.IndexSum},
		From:  millstream.LSN(r.WalFrom), To: millstream.LSN(r.WalTo),
	}
	if r.WalID != nil {
		g.WAL = millstream.WALID(*r.WalID)
	}
	return g
}

func narrow(v *int) *int32 {
	if v == nil {
		return nil
	}
	n := int32(*v)
	return &n
}
