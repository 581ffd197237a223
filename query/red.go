package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/segment"
)

// maxReserved bounds the room that is made for the spans of a source before any is read.
const maxReserved = 1 << 20

// redBytes is what a span takes in memory until its figures are made.
const redBytes = 12

type operationKey struct{ service, name string }

// redPart is the spans of one source: counts by operation, and for each span with a duration the operation and the duration. Durations are summed up later,
// when it is known which operations are listed: there may be tens of thousands, and a digest of each would cost more than all the rest.
type redPart struct {
	ids    [][]uint32 // operations plus one, by the numbers of service and name; 0: none yet
	keys   []operationKey
	spans  []int64
	errors []int64
	texts  map[string]uint32 // numbers of the names of services and operations
	sums   []*redSum         // of each operation, once all parts are known

	of        []uint32
	durations []int64
	left      *budget

	services coded // the dictionaries that byCodes is for
	names    coded
	byCodes  []uint32 // operation by pair of codes, plus one; 0: not looked up yet
}

// coded is a dictionary whose entries have been numbered.
type coded struct {
	first   *string
	numbers []uint32
}

// budget is the memory that the parts of one request share.
type budget struct {
	mu   sync.Mutex
	left int64
}

func (b *budget) take(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left -= n; b.left < 0 {
		return millstream.Errorf(millstream.Unprocessable, "the services of so many spans do not fit in memory: narrow the time range")
	}
	return nil
}

// red reads the spans of a stream in one pass over four columns, sources in parallel.
func (e *Engine) red(ctx context.Context, q *task, t *table, left *budget) (parts []*redPart, err error) {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(e.cfg.Workers)
	var mu sync.Mutex
	for _, in := range t.inputs() {
		if !q.Range.Overlaps(in.First, in.Last) {
			continue
		}
		g.Go(func() error {
			part := &redPart{texts: map[string]uint32{}, left: left}
			stats, err := part.read(gctx, in, t.schema, q.Range)
			q.progress.Sources.Add(1)
			mu.Lock()
			defer mu.Unlock()
			q.scanned(stats)
			parts = append(parts, part)
			return err
		})
	}
	return parts, g.Wait()
}

var redFields = []string{"service", "name", "status", "duration_ns"}

func (p *redPart) read(ctx context.Context, in scan.Input, schema millstream.Schema, r millstream.TimeRange) (scan.Stats, error) {
	src, release, err := in.Open(ctx)
	if err != nil {
		return scan.Stats{}, err
	}
	defer release()
	p.of, p.durations = make([]uint32, 0, min(in.Rows, maxReserved)), make([]int64, 0, min(in.Rows, maxReserved))
	stats, err := scan.Widened(src, schema).Scan(ctx, segment.Scan{Range: r, Fields: redFields}, p.take)
	return scan.Stats{ScannedRows: stats.ScannedRows, ScannedBytes: stats.ScannedBytes, Selected: stats.Selected}, err
}

func (p *redPart) take(b *millstream.Batch) error {
	if err := p.left.take(redBytes * int64(b.Rows())); err != nil {
		return err
	}
	service, name, duration := b.Column("service"), b.Column("name"), b.Column("duration_ns")
	coded := p.prepare(service, name)
	failed := failedRows(b.Column("status"))
	for i := range b.Rows() {
		var id uint32
		if coded && service.IsValid(i) && name.IsValid(i) {
			at := int(service.Codes[i])*len(name.Dict) + int(name.Codes[i])
			if p.byCodes[at] == 0 {
				p.byCodes[at] = p.id(p.services.numbers[service.Codes[i]], p.names.numbers[name.Codes[i]], service.Dict[service.Codes[i]], name.Dict[name.Codes[i]]) + 1
			}
			id = p.byCodes[at] - 1
		} else {
			a, b := textOf(service, i), textOf(name, i)
			id = p.id(p.number(a), p.number(b), a, b)
		}
		p.spans[id]++
		if failed(i) {
			p.errors[id]++
		}
		if duration == nil || !duration.IsValid(i) {
			continue
		}
		switch duration.Type {
		case millstream.Int64:
			p.of, p.durations = append(p.of, id), append(p.durations, duration.Ints[i])
		case millstream.Double:
			p.of, p.durations = append(p.of, id), append(p.durations, int64(duration.Floats[i]))
		}
	}
	return nil
}

// id is the number of an operation, by the numbers and the texts of its names.
func (p *redPart) id(a, b uint32, service, name string) uint32 {
	for int(a) >= len(p.ids) {
		p.ids = append(p.ids, nil)
	}
	if row := p.ids[a]; int(b) >= len(row) {
		p.ids[a] = append(row, make([]uint32, int(b)+1-len(row))...)
	}
	at := &p.ids[a][b]
	if *at == 0 {
		p.keys, p.spans, p.errors = append(p.keys, operationKey{strings.Clone(service), strings.Clone(name)}), append(p.spans, 0), append(p.errors, 0)
		*at = uint32(len(p.keys))
	}
	return *at - 1
}

func (p *redPart) number(text string) uint32 {
	n, ok := p.texts[text]
	if !ok {
		n = uint32(len(p.texts))
		p.texts[strings.Clone(text)] = n
	}
	return n
}

// of numbers a column's dictionary, if it is not the one that was numbered last; it says whether it was not.
func (c *coded) of(p *redPart, col *millstream.Column) (changed bool) {
	if c.first == &col.Dict[0] && len(c.numbers) == len(col.Dict) {
		return false
	}
	c.first, c.numbers = &col.Dict[0], make([]uint32, len(col.Dict))
	for k, v := range col.Dict {
		c.numbers[k] = p.number(v)
	}
	return true
}

// maxCodePairs bounds the memory of pairs of codes.
const maxCodePairs = 1 << 20

// prepare readies the memory of code pairs for the dictionaries of a batch; false if they are not coded or too many.
func (p *redPart) prepare(service, name *millstream.Column) bool {
	if service == nil || name == nil || len(service.Codes) == 0 || len(name.Codes) == 0 || len(service.Dict) == 0 || len(name.Dict) == 0 {
		return false
	}
	pairs := len(service.Dict) * len(name.Dict)
	if pairs > maxCodePairs {
		return false
	}
	other := p.services.of(p, service)
	if p.names.of(p, name) || other {
		p.byCodes = make([]uint32, pairs)
	}
	return true
}

// failedRows says of a row whether its status is error.
func failedRows(status *millstream.Column) func(i int) bool {
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

// redSum is a service or a listed operation over all parts.
type redSum struct {
	name          string
	spans, errors int64
	digest        digest
	service       *redSum // of an operation
	listed        bool
	operations    []*redSum // of a service
}

// figures are those of a sum over a range of so many seconds (0: no rate).
func (r *redSum) figures(seconds float64) RED {
	d := RED{Spans: r.spans, Errors: r.errors, P50: r.digest.quantile(0.5), P95: r.digest.quantile(0.95), P99: r.digest.quantile(0.99)}
	if seconds > 0 {
		d.Rate = float64(r.spans) / seconds
	}
	return d
}

// servicesOf makes the figures of all parts: the services by name, and of each the operations with most spans.
func servicesOf(parts []*redPart, seconds float64) []Service {
	services := map[string]*redSum{}
	n := 0
	for _, p := range parts {
		n += len(p.keys)
	}
	sums, operations := make([]redSum, 0, n), make(map[operationKey]*redSum, n)
	for _, p := range parts {
		p.sums = make([]*redSum, len(p.keys))
		for id, k := range p.keys {
			op := operations[k]
			if op == nil {
				s := services[k.service]
				if s == nil {
					s = &redSum{name: k.service}
					services[k.service] = s
				}
				sums = append(sums, redSum{name: k.name, service: s})
				op = &sums[len(sums)-1]
				operations[k] = op
				s.operations = append(s.operations, op)
			}
			op.spans, op.errors = op.spans+p.spans[id], op.errors+p.errors[id]
			op.service.spans, op.service.errors = op.service.spans+p.spans[id], op.service.errors+p.errors[id]
			p.sums[id] = op
		}
	}
	for _, s := range services {
		slices.SortFunc(s.operations, func(a, b *redSum) int { return cmp.Or(cmp.Compare(b.spans, a.spans), strings.Compare(a.name, b.name)) })
		s.operations = s.operations[:min(len(s.operations), maxOperations)]
		for _, op := range s.operations {
			op.listed = true
		}
	}
	for _, p := range parts {
		for i, id := range p.of {
			op := p.sums[id]
			op.service.digest.add(p.durations[i])
			if op.listed {
				op.digest.add(p.durations[i])
			}
		}
	}
	out := make([]Service, 0, len(services))
	for _, s := range services {
		v := Service{Name: s.name, RED: s.figures(seconds)}
		for _, op := range s.operations {
			v.Operations = append(v.Operations, Operation{Name: op.name, RED: op.figures(seconds)})
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
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
