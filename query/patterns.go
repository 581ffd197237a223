package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/pattern"
	"github.com/millstream/millstream/query/sql"
)

// Patterns are the patterns of the messages of a selection, most frequent first. If Sampled, every so manieth record was looked at, and all counts are
// estimates for the whole.
type Patterns struct {
	Field    string    `json:"field"`
	Total    int64     `json:"total"` // records that have the field
	Scanned  int64     `json:"scanned"`
	Sampled  bool      `json:"sampled"`
	Buckets  []string  `json:"buckets"`            // start of each bucket of the patterns' counts
	Previous *int64    `json:"previous,omitempty"` // Total in the range of the same length before, if it was compared
	Patterns []Pattern `json:"patterns"`
	Other    int64     `json:"other"` // records of all other patterns
	*Answer
}

// Pattern is one pattern: a message with placeholders such as <num> for what changes.
type Pattern struct {
	Pattern   string           `json:"pattern"`
	Regexp    string           `json:"regexp"`
	Condition string           `json:"condition"` // in SQL, selects the pattern's records
	Count     int64            `json:"count"`
	Share     float64          `json:"share"` // of Total, 0 to 1
	Previous  *int64           `json:"previous,omitempty"`
	Sample    string           `json:"sample"` // the newest message, without what follows its first 2,000 bytes
	First     string           `json:"first_seen"`
	Last      string           `json:"last_seen"`
	Counts    []int64          `json:"counts"` // per bucket
	Levels    map[string]int64 `json:"levels"`
}

// PatternSearch says what to make patterns of.
type PatternSearch struct {
	Field   string // empty: message
	Limit   int    // patterns; 0: 100
	Compare bool   // also count the patterns in the range of the same length before
}

// Bounds of patterns.
const (
	maxPatterns    = 1000
	patternBuckets = 30
	patternSample  = 1_000_000 // records that are looked at; of more, every so manieth
	patternsKept   = 4000      // while they are counted, by each worker; beyond, the rarer half is given up
	maxSample      = 2000      // bytes of a sample message
	maxLevels      = 12        // that a pattern counts
)

// Patterns counts the patterns of a field's texts.
func (e *Engine) Patterns(ctx context.Context, sel Selection, s PatternSearch) (*Patterns, error) {
	s.Field, s.Limit = cmp.Or(s.Field, "message"), cmp.Or(s.Limit, 100)
	length := sel.Range.End - sel.Range.Start
	switch {
	case s.Limit < 1 || s.Limit > maxPatterns:
		return nil, millstream.Errorf(millstream.Invalid, "the limit of patterns is from 1 to %d", maxPatterns)
	case length <= 0:
		return nil, millstream.Errorf(millstream.Invalid, "the time range of patterns must have a start before its end")
	case s.Compare && sel.Range.Start < math.MinInt64+length:
		return nil, millstream.Errorf(millstream.Invalid, "there is no time before the range to compare with")
	}
	warnings, err := e.inSQL(ctx, &sel)
	if err != nil {
		return nil, err
	}
	var now, before *patternCount
	answer, err := e.do(ctx, sel.request("patterns of "+quoteName(s.Field)+" in "+tableName(sel.key()), 0), func(ctx context.Context, q *task) (err error) {
		if now, err = e.countPatterns(ctx, q, sel, s.Field); err != nil || !s.Compare {
			return err
		}
		q.Range = millstream.TimeRange{Start: sel.Range.Start - length, End: sel.Range.Start}
		before, err = e.countPatterns(ctx, q, sel, s.Field)
		q.Range = sel.Range
		return err
	})
	if err != nil {
		return nil, err
	}
	answer.Warnings = append(warnings, answer.Warnings...)
	if now == nil { // stopped
		now = newPatternCount(sel.Range)
	}
	return now.result(s, before, answer), nil
}

// patternCount is what is known of patterns: one per worker, and one for all in the end.
type patternCount struct {
	rng     millstream.TimeRange
	width   int64 // of a bucket
	total   int64 // records that there are
	scanned int64 // of them, looked at
	other   int64 // of those, of patterns that were given up
	found   map[string]*patternState
	mask    pattern.Masker
}

type patternState struct {
	count       int64
	first, last int64
	sample      string
	counts      [patternBuckets]int64
	levels      map[string]int64
}

func newPatternCount(r millstream.TimeRange) *patternCount {
	return &patternCount{rng: r, width: max(1, int64((uint64(r.End)-uint64(r.Start)+patternBuckets-1)/patternBuckets)), found: map[string]*patternState{}}
}

// countPatterns reads the records of the query's range. Masking costs more than reading does, so it has workers of its own.
func (e *Engine) countPatterns(ctx context.Context, q *task, sel Selection, field string) (*patternCount, error) {
	p, err := e.patternPlan(ctx, q, sel, field)
	if err != nil {
		return nil, err
	}
	defer p.view.release()
	total := p.view.estimate().Rows
	if total > patternSample {
		if total, err = p.count(ctx, q); err != nil {
			return nil, err
		}
	}
	stride := max(1, (total+patternSample-1)/patternSample)
	blocks, seen := make(chan *Rows, e.cfg.Workers), atomic.Int64{}
	parts := make([]*patternCount, e.cfg.Workers)
	var wg sync.WaitGroup
	for w := range parts {
		part := newPatternCount(q.Range)
		parts[w] = part
		wg.Go(func() {
			for r := range blocks {
				part.take(r, seen.Add(int64(r.N))-int64(r.N), stride)
			}
		})
	}
	err = p.rows(ctx, q, func(r *Rows) error {
		blocks <- r // the workers do not stop before it is closed
		return nil
	})
	close(blocks)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	for _, o := range parts[1:] {
		parts[0].merge(o)
	}
	parts[0].total = seen.Load()
	return parts[0], nil
}

// take counts a block of time, text and level; at is the number of its first record.
func (c *patternCount) take(r *Rows, at, stride int64) {
	times, texts, levels := &r.Columns[0], &r.Columns[1], &r.Columns[2]
	for i := range r.N {
		if (at+int64(i))%stride != 0 {
			continue
		}
		c.scanned++
		message := texts.Text(i)
		key := c.mask.Mask(message)
		s := c.found[string(key)]
		if s == nil {
			if len(c.found) >= patternsKept {
				c.giveUp()
			}
			s = &patternState{first: math.MaxInt64, last: math.MinInt64, levels: map[string]int64{}}
			c.found[string(key)] = s
		}
		s.add(c, times.Ints[i], message, levels.Text(i))
	}
}

func (s *patternState) add(c *patternCount, at int64, message, level string) {
	s.count++
	s.counts[min(patternBuckets-1, max(0, (at-c.rng.Start)/c.width))]++
	s.first = min(s.first, at)
	s.show(at, message)
	if _, ok := s.levels[level]; level != "" && (ok || len(s.levels) < maxLevels) {
		if !ok {
			level = strings.Clone(level)
		}
		s.levels[level]++
	}
}

// show keeps the newest message; of several at one time the least, so that it does not depend on who was faster.
func (s *patternState) show(at int64, message string) {
	if at < s.last || at == s.last && message >= s.sample {
		return
	}
	s.last, s.sample = at, strings.Clone(head(message, maxSample))
}

// giveUp makes room: the rarer half of the patterns is counted as other.
func (c *patternCount) giveUp() {
	counts := make([]int64, 0, len(c.found))
	for _, s := range c.found {
		counts = append(counts, s.count)
	}
	slices.Sort(counts)
	limit := counts[len(counts)/2]
	drop := len(counts) / 2
	for key, s := range c.found {
		if drop > 0 && s.count <= limit {
			drop--
			c.other += s.count
			delete(c.found, key)
		}
	}
}

func (c *patternCount) merge(o *patternCount) {
	c.scanned += o.scanned
	c.other += o.other
	for key, s := range o.found {
		t := c.found[key]
		if t == nil {
			c.found[key] = s
			continue
		}
		t.count += s.count
		t.first = min(t.first, s.first)
		t.show(s.last, s.sample)
		for i, n := range s.counts {
			t.counts[i] += n
		}
		for level, n := range s.levels {
			t.levels[level] += n
		}
	}
}

// scale makes of a count of scanned records one of all.
func (c *patternCount) scale(n int64) int64 {
	if c.scanned == c.total || c.scanned == 0 {
		return n
	}
	return int64(math.Round(float64(n) * float64(c.total) / float64(c.scanned)))
}

func (c *patternCount) result(s PatternSearch, before *patternCount, answer *Answer) *Patterns {
	out := &Patterns{Field: s.Field, Total: c.total, Scanned: c.scanned, Sampled: c.scanned < c.total, Patterns: []Pattern{}, Buckets: []string{}, Answer: answer}
	for i := range int64(patternBuckets) {
		out.Buckets = append(out.Buckets, millstream.FormatTime(c.rng.Start+i*c.width))
	}
	if before != nil {
		out.Previous = &before.total
	}
	keys := make([]string, 0, len(c.found))
	for key := range c.found {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(c.found[b].count, c.found[a].count), strings.Compare(a, b))
	})
	other := c.other
	for i, key := range keys {
		if i >= s.Limit {
			other += c.found[key].count
			continue
		}
		p := c.found[key].result(c, key, s.Field)
		if before != nil {
			n := int64(0)
			if b := before.found[key]; b != nil {
				n = before.scale(b.count)
			}
			p.Previous = &n
		}
		out.Patterns = append(out.Patterns, p)
	}
	out.Other = c.scale(other)
	return out
}

func (s *patternState) result(c *patternCount, key, field string) Pattern {
	x := pattern.Expression(s.sample)
	p := Pattern{
		Pattern: key, Regexp: x, Condition: fmt.Sprintf("re_match(%s, %s)", quoteName(field), quoteText(x)), Count: c.scale(s.count), Share: share(s.count, c.scanned),
		Sample: s.sample, First: millstream.FormatTime(s.first), Last: millstream.FormatTime(s.last), Counts: make([]int64, patternBuckets), Levels: map[string]int64{},
	}
	for i, n := range s.counts {
		p.Counts[i] = c.scale(n)
	}
	for level, n := range s.levels {
		p.Levels[level] = c.scale(n)
	}
	return p
}

// patternPlan is how the records of a selection are read for their patterns.
type patternPlan struct {
	*binding
	e     *Engine
	table *table
	plan  *sql.Plan // nil: the SQL engine reads them
}

// patternPlan binds the selection's filter. The rows are time, text and level; streams without a level have none in any row.
func (e *Engine) patternPlan(ctx context.Context, q *task, sel Selection, field string) (*patternPlan, error) {
	from := " FROM " + fromClause(sel.key()) + whereClause(sel.Filter, isSet(field))
	stmt, err := e.cfg.Gate.Parse(ctx, "SELECT _timestamp, "+quoteName(field)+from, sql.Params{})
	if err != nil {
		return nil, err
	}
	b, err := e.bind(ctx, q, stmt)
	if err != nil {
		return nil, err
	}
	p := &patternPlan{binding: b, e: e, table: b.tables.refs[0]}
	if b.bound.Plan != nil {
		p.plan = &sql.Plan{Stream: b.bound.Plan.Stream, Filter: b.bound.Plan.Filter, Limit: -1}
		for _, f := range []string{millstream.TimestampField, field, "level"} {
			p.plan.Out = append(p.plan.Out, sql.Output{Name: f, Field: f})
		}
		return p, nil
	}
	level := "NULL"
	if _, ok := p.table.schema.Field("level"); ok {
		level = `"level"`
	}
	stmt, err = e.cfg.Gate.Parse(ctx, "SELECT _timestamp, "+quoteName(field)+", CAST("+level+" AS VARCHAR) AS level"+from, sql.Params{})
	if err == nil {
		p.bound, err = stmt.Bind(ctx, b.tables.tables(), e.cfg.Now())
	}
	if err != nil {
		b.view.release()
		return nil, err
	}
	return p, nil
}

// count is the exact number of records.
func (p *patternPlan) count(ctx context.Context, q *task) (n int64, err error) {
	if p.plan == nil {
		return 0, nil // the SQL engine's answer is cut, and says so
	}
	count := &sql.Plan{Stream: p.plan.Stream, Filter: p.plan.Filter, Aggregate: true, Aggs: []sql.Agg{{Func: sql.Count}}, Out: []sql.Output{{Key: -1}}, Limit: -1}
	err = p.e.kernel(ctx, q, p.table, count, func(r *Rows) error {
		n = r.Columns[0].Ints[0]
		return nil
	})
	return n, err
}

func (p *patternPlan) rows(ctx context.Context, q *task, emit func(*Rows) error) error {
	if p.plan != nil {
		defer p.e.prefetch(ctx, q, p.e.own(p.table.segments))()
		return p.e.kernel(ctx, q, p.table, p.plan, emit)
	}
	sink := rowSink(func(r *Rows) error {
		if len(r.Columns) != 3 || r.Columns[0].Type != millstream.Timestamp {
			return errNoCondition
		}
		return emit(r)
	})
	out := newLimited(q, sink, patternSample)
	err := p.e.runSQL(ctx, q, p.bound, p.tables, out)
	q.emitted = false
	return err
}

// rowSink is a sink that knows the columns.
type rowSink func(*Rows) error

func (rowSink) Columns([]Column) error { return nil }

func (f rowSink) Rows(r *Rows) error { return f(r) }
