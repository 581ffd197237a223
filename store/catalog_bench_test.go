package store_test

import (
	"context"
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

// A large catalog: as many segments, spread evenly over streams and days; one of a hundred is as wide as late records make it.
const (
	largeSegments = 1_000_000
	largeStreams  = 50
	largeDays     = 90
)

var largeEnd = time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC)

// newLargeCatalog is a world with the large catalog, and a connection of its own to the database.
func newLargeCatalog(b *testing.B) (*world, *pgx.Conn) {
	server, err := postgres.Start(ctx, postgres.Options{DataDir: filepath.Join(b.TempDir(), "postgres")})
	check(b, err)
	b.Cleanup(func() { check(b, server.Stop(context.Background())) })
	s := storetest.Open(b, server.URL())
	check(b, s.Migrate(ctx))
	w := worldOf(b, s)
	w.streams(largeStreams)
	conn, err := pgx.Connect(ctx, server.URL())
	check(b, err)
	b.Cleanup(func() { check(b, conn.Close(context.Background())) })
	_, err = conn.Exec(ctx, `
		WITH st AS (SELECT id, row_number() OVER (ORDER BY name) - 1 AS n FROM streams WHERE org_id = $1),
		made AS (
			SELECT gen_random_uuid() AS id, st.id AS stream, $2 - (i / $4)::bigint * ($3::bigint * 86400 * 1000000000 / ($5 / $4)) AS at, i
			FROM generate_series(0, $5 - 1) AS i JOIN st ON st.n = i % $4
		)
		INSERT INTO segment_rows (id, org_id, stream_id, signal, min_time, max_time, row_count, level, schema_version,
			data_key, data_offset, data_length, data_sum, index_key, index_offset, index_length, index_sum, wal_from, wal_to, node_id, incarnation, created_at, index_version)
		SELECT id, $1, stream, 1, at - (CASE WHEN i / $4 % 100 = 7 THEN 30 * 3600 ELSE 900 END)::bigint * 1000000000, at - 1, 40000 + i % 1000, 2, 1,
			'segments/' || $1 || '/logs/' || stream || '/' || id || '-12-' || i || '.parquet', 0, 9000000 + i, md5(i::text) || md5('d' || i),
			'segments/' || $1 || '/logs/' || stream || '/' || id || '-12-' || i || '.index', 0, 1000000 + i, md5('i' || i) || md5('j' || i), 0, 0, 'node-1', 1, to_timestamp(at / 1e9), $6
		FROM made ORDER BY i DESC`, w.org, largeEnd.UnixNano(), largeDays, largeStreams, largeSegments, millstream.IndexVersion)
	check(b, err)
	_, err = conn.Exec(ctx, "VACUUM ANALYZE segment_rows")
	check(b, err)
	return w, conn
}

// hourAgo is the hour that ended so many days before the catalog's newest record.
func hourAgo(days int) millstream.TimeRange {
	end := largeEnd.AddDate(0, 0, -days)
	return millstream.TimeRange{Start: end.Add(-time.Hour).UnixNano(), End: end.UnixNano()}
}

// BenchmarkCatalogOf1M plans queries of an hour among 1 M live segments, and what else is asked of a catalog all the time: a publish, and the warmer's page.
func BenchmarkCatalogOf1M(b *testing.B) {
	w, _ := newLargeCatalog(b)
	one := []millstream.StreamKey{{Org: w.org, Signal: millstream.Logs, Name: "s7"}}
	all := []millstream.StreamKey{{Org: w.org, Signal: millstream.Logs}}
	for _, c := range []struct {
		name string
		keys []millstream.StreamKey
		days int
	}{{"recent/one", one, 0}, {"recent/all", all, 0}, {"old/one", one, 60}, {"old/all", all, 60}} {
		b.Run("hour/"+c.name, func(b *testing.B) {
			n := 0
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				n = len(must(w.Snapshot(ctx, w.org, c.keys, hourAgo(c.days)))(b).Segments)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			if n < len(c.keys) {
				b.Fatalf("%d segments", n)
			}
			b.ReportMetric(float64(n), "segments")
		})
	}
	b.Run("newest", func(b *testing.B) {
		for b.Loop() {
			if page := must(w.LiveSegments(ctx, store.Place{}, 500))(b); len(page) != 500 {
				b.Fatalf("%d segments", len(page))
			}
		}
	})
	b.Run("publish", func(b *testing.B) {
		streams := w.streams(20)
		var position millstream.LSN
		for b.Loop() {
			f := w.flush(position, position+1)
			for i, st := range streams {
				g := segment(w.wal, position, position+1, st, "attempt-1")
				g.ID = millstream.SegmentID(uuid.NewString())
				g.MinTime, g.MaxTime = largeEnd.UnixNano()+int64(position), largeEnd.UnixNano()+int64(position)+int64(i)
				f.Segments = append(f.Segments, g)
			}
			position = w.publish(f, store.Published)
		}
	})
}

// BenchmarkSealedCatalog seals the large catalog, tells its size before and after, and plans hours in sealed days, from the cache and without it.
func BenchmarkSealedCatalog(b *testing.B) {
	w, conn := newLargeCatalog(b)
	size := func(table string) (rows, bytes float64) {
		_, err := conn.Exec(ctx, "VACUUM FULL "+table)
		check(b, err)
		check(b, conn.QueryRow(ctx, "SELECT count(*)::float8, pg_total_relation_size('"+table+"')::float8 FROM "+table).Scan(&rows, &bytes))
		return rows, bytes
	}
	rows, bytes := size("segment_rows")
	streams, first := w.streams(largeStreams), largeEnd.AddDate(0, 0, -largeDays).UnixNano()/oneDay
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			for _, st := range streams {
				for d := first; d < first+largeDays-3; d++ {
					must(w.SealDay(ctx, st.ID, d, 0, 16))(b)
				}
			}
		}
		left, still := size("segment_rows")
		days, packed := size("manifests")
		for unit, v := range map[string]float64{"rows-before": rows, "MB-before": bytes / 1e6, "rows-after": left + days, "MB-after": (still + packed) / 1e6} {
			b.ReportMetric(v, unit)
		}
	})
	all := []millstream.StreamKey{{Org: w.org, Signal: millstream.Logs}}
	for _, keys := range [][]millstream.StreamKey{{streams[7].Key}, all} {
		b.Run("hour/"+keys[0].Name, func(b *testing.B) {
			begin := time.Now()
			n := len(must(w.Snapshot(ctx, w.org, keys, hourAgo(10)))(b).Segments)
			first := time.Since(begin)
			var took []time.Duration
			for b.Loop() {
				for range 30 { // the whole is run once: it takes minutes
					begin := time.Now()
					must(w.Snapshot(ctx, w.org, keys, hourAgo(10)))(b)
					took = append(took, time.Since(begin))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(n), "segments")
		})
	}
}
