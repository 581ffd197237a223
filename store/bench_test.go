package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/postgres"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// newBenchWorld is a world on a server with its product settings: commits reach the disk.

func newBenchWorld(b *testing.B) *world {
	server, err := postgres.Start(ctx, postgres.Options{DataDir: filepath.Join(b.TempDir(), "postgres")})
	check(b, err)
	b.Cleanup(func() { check(b, server.Stop(context.Background())) })
	s := storetest.Open(b, server.URL())
	check(b, s.Migrate(ctx))
	return worldOf(b, s)
}

func (w *world) streams(n int) []store.Stream {
	out := make([]store.Stream, n)
	for i := range out {
		out[i] = w.stream(fmt.Sprint("s", i))
	}
	return out
}

func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 20, 1000} {
		b.Run(fmt.Sprintf("segments=%d", n), func(b *testing.B) {
			w := newBenchWorld(b)
			streams, position := w.streams(n), millstream.LSN(0)
			var took []time.Duration
			b.ResetTimer()
			for b.Loop() {
				b.StopTimer()
				f := w.flush(position, position+1, streams...)
				b.StartTimer()
				begin := time.Now()
				position = w.publish(f, store.Published)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for _, c := range []struct{ segments, fields int }{{20, 50}, {1000, 50}, {20, 2000}} {
		b.Run(fmt.Sprintf("segments=%d/fields=%d", c.segments, c.fields), func(b *testing.B) {
			w := newBenchWorld(b)
			app, others := w.stream("app"), w.streams(50)
			var fields []millstream.Field
			for i := range c.fields {
				fields = append(fields, field(fmt.Sprintf("attributes.some_field_%d", i), millstream.String))
			}
			must(w.MergeFields(ctx, app.ID, fields))(b)
			for i := range c.segments {
				w.publish(w.flush(millstream.LSN(i), millstream.LSN(i+1), append(others[:3:3], app)...), store.Published)
			}
			b.ResetTimer()
			for b.Loop() {
				s := must(w.Snapshot(ctx, w.org, []millstream.StreamKey{app.Key}, everything))(b)
				if len(s.Segments) != c.segments || len(s.Streams) != 1 {
					b.Fatalf("%d segments", len(s.Segments))
				}
			}
		})
	}
}

func BenchmarkPin(b *testing.B) {
	w := newBenchWorld(b)
	part, wal := millstream.StreamID(uuid.NewString()), w.wal
	b.SetParallelism(32) // requests in flight for each processor
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.Pin(ctx, []store.Pin{{Org: w.org, Key: uuid.NewString(), Part: part, WAL: wal}}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pins/s")
}

// BenchmarkFootprintsOf1M reads what placement counts of a million live segments, row by row.
func BenchmarkFootprintsOf1M(b *testing.B) {
	url := storetest.URL(b)
	w := worldOf(b, storetest.Open(b, url))
	conn, err := pgx.Connect(ctx, url)
	check(b, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `INSERT INTO segment_rows (id, org_id, stream_id, signal, min_time, max_time, row_count, level, schema_version, data_key, data_offset, data_length, data_sum,
		index_key, index_offset, index_length, index_sum, node_id, incarnation)
		SELECT gen_random_uuid(), $1, $2, 1, n, n, 1000, 0, 1, 'data/0123456789abcdef/' || n, 0, 1000000, md5(n::text), 'index/0123456789abcdef/' || n, 0, 50000, md5(n::text), 'node', 1
		FROM generate_series(1, 1000000) AS n`, string(w.org), string(w.stream("app").ID))
	check(b, err)
	b.ReportAllocs()
	for b.Loop() {
		n, bytes := 0, int64(0)
		check(b, w.Footprints(ctx, w.org, "", func(f store.Footprint) error { n++; bytes += f.Bytes; return nil }))
		if n != 1_000_000 || bytes != 1_050_000*1_000_000 {
			b.Fatalf("%d segments of %d bytes", n, bytes)
		}
		if first, last, err := w.FootprintSpan(ctx, w.org, ""); first != 1 || last != 1_000_000 {
			b.Fatal(first, last, err)
		}
	}
}
