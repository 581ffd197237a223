package store

import (
	"context"
	"encoding/json"
	"fmt"
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

// Snapshot reads the streams, their live segments that overlap r, and the WAL registry in one statement. A key with an empty name stands for all streams of its
// signal; streams that do not exist are not in the answer. The organization of the keys is ignored: org counts.
func (s *Store) Snapshot(ctx context.Context, org millstream.OrgID, keys []millstream.StreamKey, r millstream.TimeRange) (Snapshot, error) {
	p := db.SnapshotParams{OrgID: string(org), StartTime: r.Start, EndTime: r.End, Signals: make([]int16, len(keys)), Names: make([]string, len(keys))}
	for i, k := range keys {
		p.Signals[i], p.Names[i] = int16(k.Signal), k.Name
	}
	row, err := read(ctx, func(ctx context.Context) (db.SnapshotRow, error) { return s.q.Snapshot(ctx, p) })
	if err != nil {
		return Snapshot{}, fail(err, "take a snapshot of the catalog")
	}
	out := Snapshot{At: row.At, Segments: snapshotSegments(org, &row), WALs: snapshotWALs(&row)}
	if out.Streams, err = snapshotStreams(org, &row); err != nil {
		return Snapshot{}, err
	}
	return out, nil
}

func snapshotStreams(org millstream.OrgID, r *db.SnapshotRow) ([]Stream, error) {
	out := make([]Stream, len(r.StreamIds))
	for i := range out {
		fields, err := decodeFields([]byte(r.StreamFields[i]))
		if err != nil {
			return nil, err
		}
		var indexed []string
		if err := json.Unmarshal([]byte(r.StreamIndexed[i]), &indexed); err != nil {
			return nil, fmt.Errorf("read the indexed fields of stream %s: %w", r.StreamIds[i], err)
		}
		out[i] = Stream{
			ID:     millstream.StreamID(r.StreamIds[i]),
			Key:    millstream.StreamKey{Org: org, Signal: millstream.Signal(r.StreamSignals[i]), Name: r.StreamNames[i]},
			Schema: millstream.Schema{Version: r.StreamVersions[i], Fields: fields}, RetentionDays: int(r.StreamRetentions[i]), WriteMode: r.StreamModes[i],
			IndexedFields: unescapeAll(indexed), MaxFields: int(r.StreamMaxima[i]), CreatedAt: r.StreamCreated[i],
		}
	}
	return out, nil
}

func snapshotSegments(org millstream.OrgID, r *db.SnapshotRow) []millstream.Segment {
	out := make([]millstream.Segment, len(r.Ids))
	for i := range out {
		out[i] = millstream.Segment{
			ID: millstream.SegmentID(r.Ids[i]), Org: org, Stream: millstream.StreamID(r.Streams[i]), Signal: millstream.Signal(r.Signals[i]),
			MinTime: r.MinTimes[i], MaxTime: r.MaxTimes[i], Rows: r.RowCounts[i], Level: int(r.Levels[i]), SchemaVersion: r.SchemaVersions[i],
			Data:  millstream.Extent{Key: r.DataKeys[i], Offset: r.DataOffsets[i], Length: r.DataLengths[i], Checksum: r.DataSums[i]},
			Index: millstream.Extent{Key: r.IndexKeys[i], Offset: r.IndexOffsets[i], Length: r.IndexLengths[i], Checksum: r.IndexSums[i]},
			WAL:   millstream.WALID(r.Wals[i]), From: millstream.LSN(r.WalFroms[i]), To: millstream.LSN(r.WalTos[i]),
		}
	}
	return out
}

func snapshotWALs(r *db.SnapshotRow) []WALState {
	out := make([]WALState, len(r.RegistryIds))
	for i := range out {
		out[i] = WALState{
			ID: millstream.WALID(r.RegistryIds[i]), Node: millstream.NodeID(r.RegistryNodes[i]), Addr: r.RegistryAddrs[i],
			Incarnation: r.RegistryIncarnations[i], Position: millstream.LSN(r.RegistryPositions[i]), Clean: r.RegistryClean[i],
		}
		if at := r.RegistryPublished[i]; at.Unix() != 0 {
			out[i].LastPublish = at
		}
	}
	return out
}
