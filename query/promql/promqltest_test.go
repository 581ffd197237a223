package promql

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/promql/suitetest"
	"github.com/millstream/millstream/segment/metrics"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

// testStorage is a storage.Storage over heads and segments. After every flushAfter commits, if set, the head becomes a segment and a new one begins.
type testStorage struct {
	tb         testing.TB
	flushAfter int
	mergeAfter int // segments

	mu      sync.Mutex
	head    *metrics.Head
	sources []metrics.Source
	commits int
}

func (s *testStorage) all() []metrics.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append([]metrics.Source(nil), s.sources...), s.head)
}

func (s *testStorage) queryable() *Queryable {
	return NewQueryable(context.Background(), func(context.Context, int64, int64) (Snapshot, error) { return Snapshot{Sources: s.all()}, nil })
}

func (s *testStorage) Querier(a, b int64) (storage.Querier, error) {
	return s.queryable().Querier(a, b)
}
func (s *testStorage) ChunkQuerier(a, b int64) (storage.ChunkQuerier, error) {
	return s.queryable().ChunkQuerier(a, b)
}
func (s *testStorage) StartTime() (int64, error) { return 0, nil }
func (s *testStorage) Close() error              { return nil }
func (s *testStorage) Appender(context.Context) storage.Appender {
	panic("the suite appends with AppenderV2")
}
func (s *testStorage) AppenderV2(context.Context) storage.AppenderV2 {
	return &suitetest.Appender{Take: s.take}
}
func (s *testStorage) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) {
	return nil, errors.New("the suite reads no exemplars")
}

func (s *testStorage) take(all *millstream.Samples) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The suite gives a series' whole history at once. Cut by time, the parts fall into different segments, as they would in life.
	for _, part := range suitetest.CutByTime(all, s.flushAfter) {
		if rejected, err := s.head.Append(part); err != nil || rejected > 0 {
			s.tb.Fatalf("%d rejected, %v", rejected, err)
		}
		if s.flushAfter > 0 {
			s.flush()
		}
	}
	return nil
}

// flush turns the head into a segment, and every third time keeps it as a head.
func (s *testStorage) flush() {
	if s.commits++; s.commits%3 == 0 && s.mergeAfter == 0 {
		s.sources, s.head = append(s.sources, s.head), metrics.NewHead()
		return
	}
	s.sources = append(s.sources, segmentOf(s.tb, s.head))
	s.head = metrics.NewHead()
	if s.mergeAfter > 0 && len(s.sources) >= s.mergeAfter {
		s.sources = []metrics.Source{segmentOf(s.tb, s.sources...)}
	}
}

func segmentOf(tb testing.TB, srcs ...metrics.Source) *metrics.Reader {
	tb.Helper()
	var data, index bytes.Buffer
	if _, err := metrics.Merge(&data, &index, srcs); err != nil {
		tb.Fatal(err)
	}
	r, err := metrics.Open(bytes.NewReader(data.Bytes()), int64(data.Len()), bytes.NewReader(index.Bytes()), int64(index.Len()))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// TestPromQL runs the scripts that Prometheus tests its own engine with, on a head, on segments and heads in turn, and on merged segments.
func TestPromQL(t *testing.T) {
	engine := prom.NewEngine(prom.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 100 * time.Second, LookbackDelta: 5 * time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier:         true, EnableNegativeOffset: true, EnableDelayedNameRemoval: true, UseStartTimestamps: true,
		Parser: parser.NewParser(promqltest.TestParserOpts),
	})
	t.Cleanup(func() { _ = engine.Close() })
	layouts := map[string]struct{ flushAfter, mergeAfter int }{
		"head":     {},
		"segment":  {flushAfter: 1000},
		"segments": {flushAfter: 2},
		"merged":   {flushAfter: 1, mergeAfter: 4},
	}
	if raceDetector { // one layout meets all code; the answers do not depend on the detector
		delete(layouts, "head")
		delete(layouts, "segment")
		delete(layouts, "merged")
	}
	for name, s := range layouts {
		t.Run(name, func(t *testing.T) {
			promqltest.RunBuiltinTestsWithStorage(t, engine, func(tb testing.TB) storage.Storage {
				return &testStorage{tb: tb, flushAfter: s.flushAfter, mergeAfter: s.mergeAfter, head: metrics.NewHead()}
			})
		})
	}
}
