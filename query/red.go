package query

import (
	"context"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/segment"
)

// maxOperationGroups bounds the operations that are counted apart, over all services: names with ids in them are no operations.
const maxOperationGroups = 50_000

// otherOperation is the name under which the rest is counted.
const otherOperation = "(other)"

type operationKey struct{ service, name string }

// redGroup counts the spans of one operation of one service.
type redGroup struct {
	spans, errors int64
	durations     digest
}

// redGroups are the groups of all spans that were read.
type redGroups struct{ byKey map[operationKey]*redGroup }

func (g *redGroups) group(service, name string) *redGroup {
	k := operationKey{service, name}
	if r := g.byKey[k]; r != nil {
		return r
	}
	if len(g.byKey) >= maxOperationGroups && name != otherOperation {
		return g.group(service, otherOperation)
	}
	if g.byKey == nil {
		g.byKey = map[operationKey]*redGroup{}
	}
	r := &redGroup{}
	g.byKey[operationKey{strings.Clone(service), strings.Clone(name)}] = r
	return r
}

// merge adds the groups of another part, which must not be used afterwards.
func (g *redGroups) merge(o *redGroups) {
	for k, from := range o.byKey {
		to := g.group(k.service, k.name)
		to.spans += from.spans
		to.errors += from.errors
		to.durations.merge(&from.durations)
	}
}

// figures are those of a group, over a range of so many seconds (0: no rate).
func (r *redGroup) figures(seconds float64) RED {
	d := RED{Spans: r.spans, Errors: r.errors, P50: r.durations.quantile(0.5), P95: r.durations.quantile(0.95), P99: r.durations.quantile(0.99)}
	if seconds > 0 {
		d.Rate = float64(r.spans) / seconds
	}
	return d
}

// services sums the operations up by service. The groups must not be used afterwards.
func (g *redGroups) services(seconds float64) []Service {
	sums, at, out := map[string]*redGroup{}, map[string]int{}, []Service{}
	for k, r := range g.byKey {
		i, ok := at[k.service]
		if !ok {
			i = len(out)
			at[k.service], sums[k.service] = i, &redGroup{}
			out = append(out, Service{Name: k.service})
		}
		out[i].Operations = append(out[i].Operations, Operation{Name: k.name, RED: r.figures(seconds)})
		sum := sums[k.service]
		sum.spans += r.spans
		sum.errors += r.errors
		sum.durations.merge(&r.durations)
	}
	for i := range out {
		out[i].RED = sums[out[i].Name].figures(seconds)
	}
	return out
}

// seconds is the length of the query's range; 0 without a start: there is no rate of all time.
func (e *Engine) seconds(q *task) float64 {
	if q.Range.Start == allTime.Start {
		return 0
	}
	end := q.Range.End
	if end == allTime.End {
		end = e.cfg.Now().UnixNano()
	}
	return float64(end-q.Range.Start) / 1e9
}

// red counts the spans of a stream by service and operation, in one pass over four columns. Sources are read in parallel, each into groups of its own.
func (e *Engine) red(ctx context.Context, q *task, t *table, all *redGroups) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(e.cfg.Workers)
	var mu sync.Mutex
	for _, in := range t.inputs() {
		if !q.Range.Overlaps(in.First, in.Last) {
			continue
		}
		g.Go(func() error {
			part, stats, err := redOf(gctx, in, t.schema, q.Range)
			q.progress.Sources.Add(1)
			mu.Lock()
			defer mu.Unlock()
			q.scanned(stats)
			if err == nil {
				all.merge(part)
			}
			return err
		})
	}
	return g.Wait()
}

var redFields = []string{"service", "name", "status", "duration_ns"}

func redOf(ctx context.Context, in scan.Input, schema millstream.Schema, r millstream.TimeRange) (*redGroups, scan.Stats, error) {
	src, release, err := in.Open(ctx)
	if err != nil {
		return nil, scan.Stats{}, err
	}
	defer release()
	part := &redPart{groups: &redGroups{}}
	stats, err := scan.Widened(src, schema).Scan(ctx, segment.Scan{Range: r, Fields: redFields}, part.take)
	return part.groups, scan.Stats{ScannedRows: stats.ScannedRows, ScannedBytes: stats.ScannedBytes, Selected: stats.Selected}, err
}

// redPart counts one source. It remembers the group of each pair of dictionary codes, so that a span costs two array look-ups instead of a map's.
type redPart struct {
	groups   *redGroups
	services *string // the dictionaries that the memory is for
	names    *string
	byCodes  []*redGroup
}

// maxCodePairs bounds that memory.
const maxCodePairs = 1 << 20

func (p *redPart) take(b *millstream.Batch) error {
	service, name, status, duration := b.Column("service"), b.Column("name"), b.Column("status"), b.Column("duration_ns")
	coded := p.prepare(service, name)
	failed := failedCode(status)
	for i := range b.Rows() {
		var g *redGroup
		if coded && service.IsValid(i) && name.IsValid(i) {
			at := int(service.Codes[i])*len(name.Dict) + int(name.Codes[i])
			if g = p.byCodes[at]; g == nil {
				g = p.groups.group(service.Dict[service.Codes[i]], name.Dict[name.Codes[i]])
				p.byCodes[at] = g
			}
		} else {
			g = p.groups.group(textOf(service, i), textOf(name, i))
		}
		g.spans++
		if failed(i) {
			g.errors++
		}
		if duration != nil && duration.IsValid(i) {
			switch duration.Type {
			case millstream.Int64:
				g.durations.add(duration.Ints[i])
			case millstream.Double:
				g.durations.add(int64(duration.Floats[i]))
			}
		}
	}
	return nil
}

// prepare readies the memory of code pairs for the dictionaries of a batch; false if they are not coded or too many.
func (p *redPart) prepare(service, name *millstream.Column) bool {
	if service == nil || name == nil || service.Codes == nil || name.Codes == nil || len(service.Dict) == 0 || len(name.Dict) == 0 {
		return false
	}
	pairs := len(service.Dict) * len(name.Dict)
	if pairs > maxCodePairs {
		return false
	}
	if p.services != &service.Dict[0] || p.names != &name.Dict[0] || len(p.byCodes) != pairs {
		p.services, p.names, p.byCodes = &service.Dict[0], &name.Dict[0], make([]*redGroup, pairs)
	}
	return true
}

// failedCode says whether a row's status is error.
func failedCode(status *millstream.Column) func(i int) bool {
	if status == nil {
		return func(int) bool { return false }
	}
	if status.Codes == nil {
		return func(i int) bool { return status.IsValid(i) && status.Text(i) == "error" }
	}
	failed := make([]bool, len(status.Dict))
	for k, v := range status.Dict {
		failed[k] = v == "error"
	}
	return func(i int) bool { return status.IsValid(i) && failed[status.Codes[i]] }
}

func textOf(c *millstream.Column, i int) string {
	if c == nil || !c.IsValid(i) {
		return ""
	}
	return c.Text(i)
}
