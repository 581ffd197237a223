package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

// MetricName is a metric and the number of its series: the greatest that one segment, or the unflushed samples of one node, has.
type MetricName struct {
	Name   string
	Series int
}

// Bounds of the list of metrics.
const (
	listedMetrics  = 6 * time.Hour    // metrics with samples in this time are listed
	listRebuilt    = 10 * time.Minute // after which metrics that are gone are forgotten
	maxMetricLists = 32               // organizations whose lists are kept, those that were asked for last
)

// metricLists keeps the names of the metrics of organizations. A segment does not change, so each is read once, and asking again costs what is new.
type metricLists struct {
	mu   sync.Mutex
	orgs map[millstream.OrgID]*metricList
}

// metricList is the list of one organization.
type metricList struct {
	used time.Time // guarded by metricLists.mu

	mu     sync.Mutex // held while it is brought up to date, which callers wait for
	built  time.Time
	seen   map[millstream.SegmentID]bool
	series map[string]int
	sorted []MetricName // by name; made anew when something changed, so it can be read after mu was given back
}

// of finds or makes an organization's list; the one that was not used for longest makes room.
func (l *metricLists) of(org millstream.OrgID, now time.Time) *metricList {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.orgs[org]
	if m == nil {
		if len(l.orgs) >= maxMetricLists {
			var oldest millstream.OrgID
			for id, o := range l.orgs {
				if oldest == "" || o.used.Before(l.orgs[oldest].used) {
					oldest = id
				}
			}
			delete(l.orgs, oldest)
		}
		m = &metricList{}
		l.orgs[org] = m
	}
	m.used = now
	return m
}

// FindMetrics gives the metrics of the last six hours whose name has all words of a search, in any case: those first that begin with it, then those with a word
// that does, up to limit of them; total is how many there are.
func (e *Engine) FindMetrics(ctx context.Context, req Request, search string, limit int) (found []MetricName, total int, answer *Answer, err error) {
	now := e.cfg.Now()
	list := e.lists.of(req.Org, now)
	req.Range = millstream.TimeRange{Start: now.Add(-listedMetrics).UnixNano(), End: now.UnixNano() + 1}
	req.Language, req.Statement = "metrics", "list of metrics"
	var all []MetricName
	answer, err = e.do(ctx, req, func(ctx context.Context, q *task) (err error) {
		all, err = e.metricNames(ctx, q, list)
		return err
	})
	if err != nil {
		return nil, 0, nil, err
	}
	found = matchingMetrics(all, search)
	return found[:min(limit, len(found))], len(found), answer, nil
}

// metricNames brings a list up to date.
func (e *Engine) metricNames(ctx context.Context, q *task, list *metricList) ([]MetricName, error) {
	key := millstream.StreamKey{Org: q.Org, Signal: millstream.Metrics, Name: millstream.MetricStream}
	v, err := e.open(ctx, q.Org, []millstream.StreamKey{key}, q.Range)
	if err != nil {
		return nil, err
	}
	defer v.release()
	for _, r := range v.reasons { // begin would count rows, of which none is read
		q.partial(r)
	}
	list.mu.Lock()
	defer list.mu.Unlock()
	if now := e.cfg.Now(); list.series == nil || now.Sub(list.built) > listRebuilt {
		list.seen, list.series, list.sorted, list.built = map[millstream.SegmentID]bool{}, map[string]int{}, nil, now
	}
	st := v.find(key)
	if st == nil {
		return nil, nil
	}
	if err := e.readNames(ctx, q, st, list); err != nil {
		return nil, err
	}
	if list.sorted == nil {
		list.sorted = make([]MetricName, 0, len(list.series))
		for name, n := range list.series {
			list.sorted = append(list.sorted, MetricName{name, n})
		}
		slices.SortFunc(list.sorted, func(a, b MetricName) int { return strings.Compare(a.Name, b.Name) })
	}
	return list.sorted, nil
}

// readNames adds what a list lacks.
func (e *Engine) readNames(ctx context.Context, q *task, st *stream, list *metricList) error {
	fresh := slices.DeleteFunc(slices.Clone(st.segments), func(s millstream.Segment) bool { return list.seen[s.ID] })
	if len(fresh) > 0 {
		if err := list.add(&ownedSamples{ctx: ctx, e: e, q: q, segments: fresh}); err != nil {
			return err
		}
	}
	for _, s := range fresh {
		list.seen[s.ID] = true
	}
	for _, h := range st.heads {
		if first, last := h.Span(); first > last || !q.Range.Overlaps(first*1e6, last*1e6) {
			continue
		}
		if err := list.add(h); err != nil {
			return err
		}
	}
	return nil
}

func (l *metricList) add(src metrics.Source) error {
	names, err := src.Names()
	for _, n := range names {
		had, ok := l.series[n.Name]
		if !ok || n.Series > had {
			l.series[strings.Clone(n.Name)] = n.Series
			l.sorted = nil
		}
	}
	return err
}

// matchingMetrics are the names with all words of a search, best first.
func matchingMetrics(all []MetricName, search string) []MetricName {
	words := strings.Fields(strings.ToLower(search))
	if len(words) == 0 {
		return all
	}
	type ranked struct {
		MetricName
		rank int
	}
	var found []ranked
next:
	for _, m := range all {
		r, name := ranked{MetricName: m}, strings.ToLower(m.Name)
		for _, w := range words {
			rank := store.Match(name, w)
			if rank > partOfName {
				continue next
			}
			r.rank += rank
		}
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.Name, b.Name)) })
	out := make([]MetricName, len(found))
	for i, f := range found {
		out[i] = f.MetricName
	}
	return out
}

// partOfName is the rank by which store.Match knows a part of a name. Characters that are merely in order find too much among metrics.
const partOfName = 3
