package compactor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type instruments struct {
	merges, lost, failures    *prometheus.CounterVec
	inputs, bytesIn, bytesOut *prometheus.CounterVec
	seconds                   *prometheus.HistogramVec
	backlog                   *prometheus.GaugeVec
	expired, collected        prometheus.Counter
	deleted                   prometheus.Counter
	manifests, sealed         prometheus.Counter
	orphans, missing          prometheus.Counter
	refused                   prometheus.Gauge
	unreadable                *prometheus.CounterVec
	lostIndexes, rebuildBytes prometheus.Counter
	rebuilds                  *prometheus.CounterVec
}

func newInstruments(r prometheus.Registerer, missing func() float64) *instruments {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "millstream_compactor_missing_segments", Help: "live segments that this node knows to lack an object in the store: they are not merged, and queries of them fail; an operator must look"}, missing)
	tier := []string{"tier"}
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	tiered := func(name, help string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, tier)
	}
	return &instruments{
		merges:       tiered("millstream_compactor_merges_total", "merged segments that were published"),
		lost:         tiered("millstream_compactor_lost_races_total", "merges whose inputs another process, retention or a deletion took first; their output is thrown away"),
		failures:     tiered("millstream_compactor_failures_total", "merges that failed; they are planned again"),
		inputs:       tiered("millstream_compactor_input_segments_total", "segments that were merged"),
		bytesIn:      tiered("millstream_compactor_input_bytes_total", "bytes of segments that were merged"),
		bytesOut:     tiered("millstream_compactor_output_bytes_total", "bytes of merged segments"),
		seconds:      f.NewHistogramVec(prometheus.HistogramOpts{Name: "millstream_compactor_merge_seconds", Help: "time from the first read to the publish of a merge", Buckets: prometheus.ExponentialBuckets(.05, 3, 8)}, tier),
		backlog:      f.NewGaugeVec(prometheus.GaugeOpts{Name: "millstream_compactor_backlog_bytes", Help: "bytes in merges that are due and have not begun"}, tier),
		expired:      counter("millstream_compactor_expired_segments_total", "segments past their retention"),
		collected:    counter("millstream_compactor_collected_segments_total", "dead segments whose catalog rows went"),
		manifests:    counter("millstream_compactor_manifests_total", "days of streams whose catalog rows were sealed into one"),
		sealed:       counter("millstream_compactor_sealed_segments_total", "segments whose catalog rows were sealed into manifests"),
		deleted:      counter("millstream_compactor_deleted_objects_total", "objects that were deleted"),
		orphans:      counter("millstream_compactor_orphan_objects_total", "objects that nothing names and that were deleted"),
		missing:      counter("millstream_compactor_missing_objects_total", "objects that the catalog names and the store lacks: data is lost"),
		refused:      f.NewGauge(prometheus.GaugeOpts{Name: "millstream_compactor_orphans_refused", Help: "orphans found by the latest reconciliation that were too many to be believed; an operator must look"}),
		unreadable:   f.NewCounterVec(prometheus.CounterOpts{Name: "millstream_compactor_unreadable_manifests_total", Help: "times that a kind of work passed over a manifest because it cannot be read; an operator must look"}, []string{"work"}),
		lostIndexes:  counter("millstream_compactor_missing_indexes_total", "index objects that the catalog names and the store lacks; they are built anew"),
		rebuilds:     f.NewCounterVec(prometheus.CounterOpts{Name: "millstream_compactor_index_rebuilds_total", Help: "indexes that were built anew, by outcome"}, []string{"outcome"}),
		rebuildBytes: counter("millstream_compactor_index_rebuild_bytes_total", "bytes of data whose indexes were built anew"),
	}
}

// tiers name the levels that merges write.
var tiers = map[int]string{young: "nursery", grown: "janitor"}
