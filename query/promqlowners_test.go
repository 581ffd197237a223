package query_test

import (
	"context"
	"errors"
	"testing"
	"time"

	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/promql"
	"github.com/millstream/millstream/query/promql/suitetest"
)

// fleetStorage is a storage.Storage over a fleet, for Prometheus' test suite. Every third part of what is appended stays unflushed until the next one.
type fleetStorage struct {
	f     *fleet
	parts int
}

// empty forgets what was written before.
func (s *fleetStorage) empty() *fleetStorage {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.streams, s.f.segments, s.f.buffers, s.f.position = nil, nil, nil, s.f.end
	return s
}

func (s *fleetStorage) AppenderV2(context.Context) storage.AppenderV2 {
	return &suitetest.Appender{Take: func(all *millstream.Samples) error {
		for _, part := range suitetest.CutByTime(all, 2) {
			s.f.append(millstream.Metrics, millstream.MetricStream, &millstream.Batch{Samples: part})
			if s.parts++; s.parts%3 != 0 {
				s.f.flush()
			}
		}
		return nil
	}}
}

// closing is a querier that gives back what it read.
type closing struct {
	storage.Querier
	view *promql.Queryable
}

func (c closing) Close() error {
	c.view.Close()
	return nil
}

func (s *fleetStorage) Querier(first, last int64) (storage.Querier, error) {
	view := promql.NewQueryable(context.Background(), openOf(s.f.Engine))
	q, err := view.Querier(first, last)
	return closing{q, view}, err
}

func (s *fleetStorage) ChunkQuerier(int64, int64) (storage.ChunkQuerier, error) {
	return nil, errors.New("the suite reads no chunks")
}

func (s *fleetStorage) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) {
	return nil, errors.New("the suite reads no exemplars")
}

func (s *fleetStorage) StartTime() (int64, error) { return 0, nil }
func (s *fleetStorage) Close() error              { return nil }

func (s *fleetStorage) Appender(context.Context) storage.Appender {
	panic("the suite appends with AppenderV2")
}

// TestPromQLOfOwners runs the scripts that Prometheus tests its own engine with on segments of three nodes.
func TestPromQLOfOwners(t *testing.T) {
	engine := prom.NewEngine(prom.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 100 * time.Second, LookbackDelta: 5 * time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
		EnableAtModifier:         true, EnableNegativeOffset: true, EnableDelayedNameRemoval: true, UseStartTimestamps: true,
		Parser: parser.NewParser(promqltest.TestParserOpts),
	})
	t.Cleanup(func() { _ = engine.Close() })
	s := &fleetStorage{f: newFleet(t)}
	promqltest.RunBuiltinTestsWithStorage(t, engine, func(testing.TB) storage.Storage { return s.empty() })
	if s.f.asked.Load() == 0 {
		t.Error("no other node was asked")
	}
}
