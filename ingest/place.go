package ingest

import (
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
)

const (
	// maxTries is to how many nodes, in rank order, a part is offered while each says that it took nothing.
	maxTries = 3
	// buckets are the pieces of an organization's metrics: all its samples are one stream, which one node alone would have to take otherwise.
	buckets = 64
)

// routed is one part of a request and the nodes that may take it, best first.
type routed struct {
	batch *millstream.Batch
	nodes []millstream.Member
}

var errNoIntake = &millstream.Error{Kind: millstream.Unavailable, Msg: "no intake node is available", Hint: "check that a node with the role intake runs and reaches the database", RetryAfter: 5}

// view is the cluster as of now; nil on a node that is alone.
func (r *Router) view() *cluster.View {
	if r.cfg.View == nil {
		return nil
	}
	return r.cfg.View()
}

// rank is the nodes that may take what is named so, best first. Without any the own intake, if there is one, still may: a node that leaves takes itself out of
// the view before it has answered its last requests.
func (r *Router) rank(v *cluster.View, org millstream.OrgID, sig millstream.Signal, name string) []millstream.Member {
	if v == nil {
		return r.self
	}
	if nodes := v.Rank(cluster.Intake, cluster.StreamKey(org, sig, name), maxTries); len(nodes) > 0 {
		return nodes
	}
	return r.self
}

// place chooses the nodes of a request without a key. A stream has its node; metrics have one a bucket of series.
func (r *Router) place(batches []*millstream.Batch) ([]routed, error) {
	v := r.view()
	parts := make([]routed, 0, len(batches))
	for _, b := range batches {
		nodes := r.rank(v, b.Org, b.Signal, b.Name)
		switch {
		case len(nodes) == 0:
			return nil, errNoIntake
		case b.Signal == millstream.Metrics && len(nodes) > 1:
			parts = append(parts, r.split(v, b)...)
		default:
			parts = append(parts, routed{b, nodes})
		}
	}
	for _, p := range parts {
		if err := makeID(p.batch); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// bucketName names a bucket of the metric stream for the rendezvous.
var bucketName = func() (names [buckets]string) {
	for i := range names {
		names[i] = millstream.MetricStream + "/" + strconv.Itoa(i)
	}
	return names
}()

// hashString must be the same on every router.
func hashString(s string) uint64 { return xxhash.Sum64String(s) }

// split divides a batch of samples among the owners of its series' buckets: a part an owner, not a bucket. Exemplars go with their series, metadata with the first
// part. A part's further nodes are those of its first bucket: while an owner is away, whoever comes second may take all of a request's part.
func (r *Router) split(v *cluster.View, b *millstream.Batch) []routed {
	s := b.Samples
	var owners [buckets]millstream.NodeID    // as far as they were asked for
	bySeries := make([]int32, len(s.Series)) // the series' part, from 1 on; 0: not looked at
	byOwner := map[millstream.NodeID]int32{}
	var parts []routed
	partOf := func(ref uint32) int32 {
		if at := bySeries[ref]; at > 0 {
			return at - 1
		}
		bucket := hashString(s.Series[ref]) % buckets
		if owners[bucket] == "" {
			m, _ := v.Owner(cluster.Intake, cluster.StreamKey(b.Org, b.Signal, bucketName[bucket])) // there are several
			owners[bucket] = m.ID
		}
		at, ok := byOwner[owners[bucket]]
		if !ok {
			at = int32(len(parts))
			byOwner[owners[bucket]] = at
			parts = append(parts, routed{nodes: r.rank(v, b.Org, b.Signal, bucketName[bucket])})
		}
		bySeries[ref] = at + 1
		return at
	}
	for _, ref := range s.Ref {
		partOf(ref)
	}
	for i := range s.Exemplars {
		partOf(s.Exemplars[i].Ref)
	}
	switch len(parts) {
	case 0: // metadata alone
		return []routed{{b, r.rank(v, b.Org, b.Signal, b.Name)}}
	case 1:
		parts[0].batch = b
		return parts
	}
	for i, samples := range divide(s, bySeries, len(parts)) {
		c := *b
		c.Samples = samples
		parts[i].batch = &c
	}
	return parts
}

// divide makes n batches of samples of one; bySeries has each series' part, from 1 on.
func divide(s *millstream.Samples, bySeries []int32, n int) []*millstream.Samples {
	rows, series := make([]int, n), make([]int, n)
	for _, ref := range s.Ref {
		rows[bySeries[ref]-1]++
	}
	for _, at := range bySeries {
		if at > 0 {
			series[at-1]++
		}
	}
	out := make([]*millstream.Samples, n)
	for i := range out {
		p := &millstream.Samples{Series: make([]string, 0, series[i]), Ref: make([]uint32, 0, rows[i]), Time: make([]int64, 0, rows[i]), Value: make([]float64, 0, rows[i])}
		if s.Start != nil {
			p.Start = make([]int64, 0, rows[i])
		}
		if s.Histogram != nil {
			p.Histogram = make([][]byte, 0, rows[i])
		}
		out[i] = p
	}
	renamed := make([]uint32, len(s.Series)) // the series' number in its part
	for i, key := range s.Series {
		if at := bySeries[i]; at > 0 {
			p := out[at-1]
			renamed[i] = uint32(len(p.Series))
			p.Series = append(p.Series, key)
		}
	}
	for i, ref := range s.Ref {
		p := out[bySeries[ref]-1]
		p.Ref, p.Time, p.Value = append(p.Ref, renamed[ref]), append(p.Time, s.Time[i]), append(p.Value, s.Value[i])
		if s.Start != nil {
			p.Start = append(p.Start, s.Start[i])
		}
		if s.Histogram != nil {
			p.Histogram = append(p.Histogram, s.Histogram[i])
		}
	}
	for _, e := range s.Exemplars {
		p := out[bySeries[e.Ref]-1]
		e.Ref = renamed[e.Ref]
		p.Exemplars = append(p.Exemplars, e)
	}
	out[0].Metadata = s.Metadata
	return out
}
