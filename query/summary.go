package query

import (
	"context"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/segment"
)

// summary is what the figures of services need of the spans of one part of a source. It does not change once it is made, so that of a part that does not change
// either can be kept; and it holds every duration, so that figures do not depend on how spans are divided into parts.
type summary struct {
	operations []operationSummary
	durations  []int64 // ns, those of each operation together, in the order of operations
	links      *links  // nil unless edges were asked for
	size       int64   // bytes in memory, about
}

// operationSummary is the spans of one operation. Operations are told apart by hash, which errs once in 10^10 merges of 30,000.
type operationSummary struct {
	operationKey
	hash          uint64
	spans, errors int64
	end           int // of its durations; they begin where those of the operation before end
}

type operationKey struct{ service, name string }

func (k operationKey) hash() uint64 { return pairHash(hashOf(k.service), hashOf(k.name)) }

// summaryFields are the fields that a summary is made from; linkFields those that edges need besides.
var (
	summaryFields = []string{"service", "name", "status", "duration_ns"}
	linkFields    = []string{"trace_id", "span_id", "parent_span_id"}
)

// summarizer makes a summary from batches.
type summarizer struct {
	ids       map[operationKey]uint32
	out       summary
	of        []uint32 // operation of each duration
	durations []int64
	links     *linker // nil unless edges are asked for

	services, names *string  // the dictionaries that byCodes is for, known by their first entries
	byCodes         []uint32 // operation by pair of codes, plus one; 0: not looked up yet
}

// summarize reads the spans of a source in one pass.
func summarize(ctx context.Context, src segment.Source, schema millstream.Schema, r millstream.TimeRange, edges bool) (*summary, segment.ScanStats, error) {
	s := &summarizer{ids: map[operationKey]uint32{}}
	room := min(src.Rows(), maxReserved)
	s.of, s.durations = make([]uint32, 0, room), make([]int64, 0, room)
	fields := summaryFields
	if edges {
		fields = append(fields[:len(fields):len(fields)], linkFields...)
		s.links = newLinker(room)
	}
	stats, err := scan.Widened(src, schema).Scan(ctx, segment.Scan{Range: r, Fields: fields}, s.take)
	if err != nil {
		return nil, stats, err
	}
	return s.finish(), stats, nil
}

// maxReserved bounds the room that is made for the spans of a source before any is read.
const maxReserved = 1 << 20

func (s *summarizer) take(b *millstream.Batch) error {
	service, name, duration := b.Column("service"), b.Column("name"), b.Column("duration_ns")
	coded := s.prepare(service, name)
	failed := failedRows(b.Column("status"))
	if s.links != nil {
		s.links.begin(b)
	}
	for i := range b.Rows() {
		var id uint32
		if coded && service.IsValid(i) && name.IsValid(i) {
			at := int(service.Codes[i])*len(name.Dict) + int(name.Codes[i])
			if s.byCodes[at] == 0 {
				s.byCodes[at] = s.id(service.Dict[service.Codes[i]], name.Dict[name.Codes[i]]) + 1
			}
			id = s.byCodes[at] - 1
		} else {
			id = s.id(textOf(service, i), textOf(name, i))
		}
		op, bad := &s.out.operations[id], failed(i)
		op.spans++
		if bad {
			op.errors++
		}
		ns, timed := nanoseconds(duration, i)
		if timed {
			s.of, s.durations = append(s.of, id), append(s.durations, ns)
		}
		if s.links != nil {
			s.links.add(i, id, bad, ns)
		}
	}
	return nil
}

// nanoseconds is a span's duration; false if it has none.
func nanoseconds(c *millstream.Column, i int) (int64, bool) {
	switch {
	case c == nil || !c.IsValid(i):
	case c.Type == millstream.Int64:
		return c.Ints[i], true
	case c.Type == millstream.Double:
		return int64(c.Floats[i]), true
	}
	return 0, false
}

// id is the number of an operation.
func (s *summarizer) id(service, name string) uint32 {
	id, ok := s.ids[operationKey{service, name}]
	if !ok {
		id = uint32(len(s.out.operations))
		key := operationKey{strings.Clone(service), strings.Clone(name)}
		s.ids[key] = id
		s.out.operations = append(s.out.operations, operationSummary{operationKey: key, hash: key.hash()})
	}
	return id
}

// maxCodePairs bounds the memory of pairs of codes.
const maxCodePairs = 1 << 20

// prepare readies the memory of code pairs for the dictionaries of a batch; false if they are not coded or too many.
func (s *summarizer) prepare(service, name *millstream.Column) bool {
	if service == nil || name == nil || len(service.Codes) == 0 || len(name.Codes) == 0 || len(service.Dict) == 0 || len(name.Dict) == 0 {
		return false
	}
	pairs := len(service.Dict) * len(name.Dict)
	if pairs > maxCodePairs {
		return false
	}
	if s.services != &service.Dict[0] || s.names != &name.Dict[0] || len(s.byCodes) != pairs {
		s.services, s.names, s.byCodes = &service.Dict[0], &name.Dict[0], make([]uint32, pairs)
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

// Bytes that entries of a summary take, texts apart.
const (
	operationBytes = 64
	durationBytes  = 8
)

// finish sorts the durations by operation.
func (s *summarizer) finish() *summary {
	out := &s.out
	at := make([]int, len(out.operations)+1)
	for _, id := range s.of {
		at[id+1]++
	}
	for id := range out.operations {
		at[id+1] += at[id]
		out.operations[id].end = at[id+1]
	}
	out.durations = make([]int64, len(s.durations))
	for i, id := range s.of {
		out.durations[at[id]] = s.durations[i]
		at[id]++
	}
	if s.links != nil {
		out.links = s.links.finish(out.operations)
	}
	out.measure()
	return out
}

// merge makes one summary of several, with the links of those that have some if edges are asked for.
func merge(parts []*summary, edges bool) *summary {
	if len(parts) == 1 {
		return parts[0]
	}
	out := &summary{}
	numbers := make([][]uint32, len(parts)) // of each part's operations
	byHash := map[uint64]uint32{}
	for i, p := range parts {
		numbers[i] = make([]uint32, len(p.operations))
		from := 0
		for k := range p.operations {
			op := &p.operations[k]
			n, ok := byHash[op.hash]
			if !ok {
				n = uint32(len(out.operations))
				byHash[op.hash], out.operations = n, append(out.operations, operationSummary{operationKey: op.operationKey, hash: op.hash})
			}
			sum := &out.operations[n]
			sum.spans, sum.errors = sum.spans+op.spans, sum.errors+op.errors
			sum.end += op.end - from // the number of its durations, for now
			from = op.end
			numbers[i][k] = n
		}
	}
	out.setDurations(parts, numbers)
	if edges {
		out.links = mergeLinks(parts)
	}
	out.measure()
	return out
}

// setDurations copies the durations of the parts, whose operations have those numbers. The end of each operation is the number of its durations before.
func (s *summary) setDurations(parts []*summary, numbers [][]uint32) {
	next := make([]int, len(s.operations))
	end := 0
	for n := range s.operations {
		op := &s.operations[n]
		next[n] = end
		end += op.end
		op.end = end
	}
	s.durations = make([]int64, end)
	for i, p := range parts {
		from := 0
		for k, n := range numbers[i] {
			to := p.operations[k].end
			next[n] += copy(s.durations[next[n]:], p.durations[from:to])
			from = to
		}
	}
}

// measure sets the size.
func (s *summary) measure() {
	s.size = operationBytes*int64(len(s.operations)) + durationBytes*int64(len(s.durations))
	for i := range s.operations {
		s.size += int64(len(s.operations[i].service) + len(s.operations[i].name))
	}
	if s.links != nil {
		s.size += s.links.size()
	}
}
