package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// example is a row of the documentation's table: a search and the numbers of the records that it finds.
type example struct{ search, finds string }

// documented reads the records and the examples of docs/search.md.
func documented(t testing.TB) (records []map[string]any, examples []example) {
	t.Helper()
	text, err := os.ReadFile("../docs/search.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	lines, rest, _ := strings.Cut(rest, "```")
	for line := range strings.Lines(lines) {
		r := map[string]any{}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(.+?)` \\| ([0-9, ]+|none) \\|").FindAllStringSubmatch(rest, -1) {
		examples = append(examples, example{m[1], strings.TrimSpace(strings.Replace(m[2], "none", "", 1))})
	}
	if len(records) < 5 || len(examples) < 30 {
		t.Fatalf("%d records and %d examples", len(records), len(examples))
	}
	return records, examples
}

// batchOf makes a batch of records, the i-th i seconds after the epoch.
func batchOf(t testing.TB, records []map[string]any) *millstream.Batch {
	t.Helper()
	b := millstream.NewBuilder(millstream.Limits{})
	for i, r := range records {
		for name, v := range r {
			switch v := v.(type) {
			case string:
				b.String([]byte(name), []byte(v))
			case bool:
				b.Bool([]byte(name), v)
			case json.Number:
				if n, err := v.Int64(); err == nil {
					b.Int([]byte(name), n)
				} else if f, err := v.Float64(); err == nil {
					b.Double([]byte(name), f)
				}
			}
		}
		if err := b.Commit(epoch + int64(i)*1e9); err != nil {
			t.Fatal(err)
		}
	}
	return b.Batch()
}

// found gives the numbers of the records of an answer, in order.
func (n *node) found(t testing.TB, req query.Request) string {
	t.Helper()
	var rows numbersOf
	if _, err := n.Run(t.Context(), req, &rows); err != nil {
		t.Errorf("%s: %v", req.Statement, err)
		return "?"
	}
	slices.Sort(rows.found)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(rows.found), " ", ", "), "[]")
}

// numbersOf is a sink of the column n.
type numbersOf struct {
	at    int
	found []int64
}

func (s *numbersOf) Columns(cs []query.Column) error {
	s.at = slices.IndexFunc(cs, func(c query.Column) bool { return c.Name == "n" })
	return nil
}

func (s *numbersOf) Rows(r *query.Rows) error {
	s.found = append(s.found, r.Columns[s.at].Ints[:r.N]...)
	return nil
}

func searchFor(text string) query.Request {
	return query.Request{Org: org, Language: "search", Stream: "app", Statement: text, Range: day}
}

// A search finds what the documentation says, and the same before a flush, after it and in the middle of it, by kernels and by DuckDB.
func TestDocumentedSearches(t *testing.T) {
	records, examples := documented(t)
	for _, state := range []string{"unflushed", "mixed", "flushed"} {
		n := newNode(t, nil)
		half := len(records) / 2
		n.append(millstream.Logs, "app", batchOf(t, records[:half]))
		if state != "unflushed" {
			n.flush()
		}
		n.append(millstream.Logs, "app", batchOf(t, records[half:]))
		if state == "flushed" {
			n.flush()
		}
		for _, x := range examples {
			if got := n.found(t, searchFor(x.search)); got != x.finds {
				t.Errorf("%s: %s finds %q, want %q", state, x.search, got, x.finds)
			}
			tr, err := n.Translate(t.Context(), searchFor(x.search))
			if err != nil {
				t.Fatal(err)
			}
			// An order by n is none of the kernels'.
			byDuckDB := query.Request{Org: org, Statement: "SELECT n FROM app WHERE " + tr.Filter + " ORDER BY n", Range: day}
			if got := n.found(t, byDuckDB); got != x.finds {
				t.Errorf("%s: %s finds %q in DuckDB, want %q (%s)", state, x.search, got, x.finds, tr.Filter)
			}
		}
	}
}

// The negation of a search finds exactly the other records.
func TestNegationIsTheRest(t *testing.T) {
	records, examples := documented(t)
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", batchOf(t, records))
	n.flush()
	for _, x := range examples {
		var rest []string
		for i := range records {
			if number := fmt.Sprint(i + 1); !slices.Contains(strings.Split(x.finds, ", "), number) {
				rest = append(rest, number)
			}
		}
		if got := n.found(t, searchFor("not ("+x.search+")")); got != strings.Join(rest, ", ") {
			t.Errorf("not (%s) finds %q, want %q", x.search, got, rest)
		}
	}
}

func TestSearchAnswer(t *testing.T) {
	records, _ := documented(t)
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", batchOf(t, records))
	rows, answer, err := n.try(t, query.Request{Org: org, Language: "search", Stream: "app", Statement: "levle:x or status>=200", Range: day, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := `SELECT * FROM "app" WHERE FALSE OR "status" >= 200 ORDER BY _timestamp DESC LIMIT 2`
	if answer.SQL != want || len(rows) != 3 || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], `did you mean "level"?`) {
		t.Errorf("%q %q %d rows", answer.SQL, answer.Warnings, len(rows))
	}
	if answer, err := n.Estimate(t.Context(), searchFor("status>=200")); err != nil || answer.Rows != int64(len(records)) {
		t.Errorf("estimate %+v %v", answer, err)
	}
	for text, kind := range map[string]millstream.Kind{`level:"open`: millstream.Invalid, strings.Repeat("word ", 4000): millstream.TooLarge} {
		var e *millstream.Error
		if _, _, err := n.try(t, searchFor(text)); !errors.As(err, &e) || e.Kind != kind {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	for _, req := range []query.Request{{Org: org, Language: "search", Stream: "ap", Statement: "x"}, {Org: org, Language: "search", Statement: "x"},
		{Org: org, Language: "search", Signal: millstream.Metrics, Stream: "up", Statement: "x"}} {
		var e *millstream.Error
		if _, err := n.Translate(t.Context(), req); !errors.As(err, &e) || e.Kind == millstream.Internal {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// The explorer takes a search where it takes a condition.
func TestSearchFilters(t *testing.T) {
	records, _ := documented(t)
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", batchOf(t, records))
	sel := query.Selection{Org: org, Stream: "app", Range: millstream.TimeRange{Start: epoch, End: epoch + 60e9}, Language: "search", Filter: "level:error or levle:x"}
	h, err := n.Histogram(t.Context(), sel, time.Minute, "")
	if err != nil || h.Total != 2 || len(h.Warnings) != 1 {
		t.Errorf("histogram %+v %v", h, err)
	}
	f, err := n.Fields(t.Context(), sel, query.FieldSearch{Limit: -1})
	if err != nil || f.Rows != 2 || len(f.Warnings) != 1 {
		t.Errorf("fields %+v %v", f, err)
	}
	c, err := n.Context(t.Context(), query.Around{Selection: sel, At: epoch + 1e9, Before: 5, After: 5})
	if err != nil || len(c.Before) != 1 || len(c.After) != 1 {
		t.Errorf("context %+v %v", c, err)
	}
	sel.Language = "klingon"
	if _, err := n.Histogram(t.Context(), sel, time.Minute, ""); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("unknown language: %v", err)
	}
}

func TestSearchTail(t *testing.T) {
	records, _ := documented(t)
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", batchOf(t, records[:1]))
	ctx, cancel := context.WithCancel(t.Context())
	events, done := make(chan query.TailEvent, 1), make(chan error, 1)
	go func() {
		sel := query.Selection{Org: org, Stream: "app", Language: "search", Filter: "status:5* -level:warn"}
		done <- n.Tail(ctx, sel, nil, func(e query.TailEvent) error { events <- e; return nil })
	}()
	<-n.subbed
	n.append(millstream.Logs, "app", batchOf(t, records))
	if e := <-events; e.N != 1 || !strings.Contains(string(query.AppendObjects(nil, &e.Rows)), `"n":1`) {
		t.Errorf("%d records", e.N)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	sel := query.Selection{Org: org, Stream: "app", Language: "search", Filter: `"open`}
	if err := n.Tail(t.Context(), sel, nil, nil); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("a mistake in a tail's search: %v", err)
	}
}

func TestComplete(t *testing.T) {
	records, _ := documented(t)
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", batchOf(t, records[:4]))
	n.flush()
	n.append(millstream.Logs, "app", batchOf(t, records[4:]))
	for marked, want := range map[string]string{
		"serv|":             "0-4 field service.name string service.name:",
		"timeout an|":       "8-10 keyword and  and ",
		"code|":             "0-4 field code string code:", // of an unflushed record
		"_exi|":             "0-4 function _exists:  _exists:",
		"level:|":           "6-6 value info 2 records info; value ERROR 1 record ERROR; value error 1 record error; value warn 1 record warn",
		"level:E|x":         "6-8 value ERROR 1 record ERROR; value error 1 record error",
		"status:5|":         "7-8 value 502 1 record 502; value 504 1 record 504",
		"retry:|":           "6-6 value false 1 record false; value true 1 record true",
		`path:"/api|`:       `5-10 value /api/orders 1 record "/api/orders"`,
		"nothing_here:x|":   "13-14 ",
		`"in a phrase lev|`: "0-16 ",
	} {
		before, after, _ := strings.Cut(marked, "|")
		c, err := n.Complete(t.Context(), searchFor(before+after), len([]rune(before)))
		if err != nil {
			t.Fatal(err)
		}
		var items []string
		for _, i := range c.Items {
			items = append(items, fmt.Sprint(i.Kind, " ", i.Label, " ", i.Detail, " ", i.Apply))
		}
		if got := fmt.Sprintf("%d-%d %s", c.From, c.To, strings.Join(items, "; ")); got != want {
			t.Errorf("%s\n got %s\nwant %s", marked, got, want)
		}
	}
	req := searchFor("level:")
	req.Range = millstream.TimeRange{Start: epoch - 2, End: epoch - 1}
	if c, err := n.Complete(t.Context(), req, 6); err != nil || len(c.Items) != 0 {
		t.Errorf("values outside the range: %+v %v", c, err)
	}
	req.Stream = "nope"
	if _, err := n.Complete(t.Context(), req, 6); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("unknown stream: %v", err)
	}
}
