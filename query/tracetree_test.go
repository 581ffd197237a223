package query_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// putSpans appends the spans of trace aa: each "id parent from to", parent - for none, times in µs after the epoch.
func putSpans(t testing.TB, n *node, spans ...string) {
	t.Helper()
	b := millstream.NewBuilder(millstream.Limits{})
	for _, s := range spans {
		var id, parent string
		var from, to int64
		if _, err := fmt.Sscan(s, &id, &parent, &from, &to); err != nil {
			t.Fatal(err)
		}
		pairs := map[string]string{"trace_id": "aa", "span_id": id, "name": "op-" + id, "service": "s" + id[:1], "kind": "internal", "status": "ok"}
		if parent != "-" {
			pairs["parent_span_id"] = parent
		}
		if strings.HasSuffix(id, "e") {
			pairs["status"] = "error"
		}
		for k, v := range pairs {
			b.String([]byte(k), []byte(v))
		}
		b.Int([]byte("duration_ns"), (to-from)*1000)
		if err := b.Commit(epoch + from*1000); err != nil {
			t.Fatal(err)
		}
	}
	n.append(millstream.Traces, "default", b.Batch())
}

var traceShapes = map[string]struct {
	spans []string
	tree  string // id/depth/self µs/children, from top to bottom; ! where the parent is missing
	path  string // id:from-to µs
}{
	"one after another": {
		[]string{"a - 0 100", "b a 10 40", "c a 50 90", "d c 60 80"},
		"a/0/30/2 b/1/30/0 c/1/20/1 d/2/20/0",
		"a:0-10 b:10-40 a:40-50 c:50-60 d:60-80 c:80-90 a:90-100",
	},
	"side by side": {
		[]string{"a - 0 100", "b a 10 60", "c a 20 90", "d a 5 15"},
		"a/0/15/3 d/1/10/0 b/1/50/0 c/1/70/0",
		"a:0-5 d:5-15 a:15-20 c:20-90 a:90-100",
	},
	"a child outlasts its parent": {
		[]string{"a - 0 100", "b a 50 300", "c b 60 90"},
		"a/0/50/1 b/1/220/1 c/2/30/0",
		"a:0-50 b:50-60 c:60-90 b:90-100",
	},
	"a child lies outside": {
		[]string{"a - 0 100", "b a 200 300"},
		"a/0/100/1 b/1/100/0",
		"a:0-100",
	},
	"parents are missing": {
		[]string{"b x 0 500", "a - 10 100", "c x 20 30", "d b 30 40"},
		"a/0/90/0 b/0/490/1! d/1/10/0 c/0/10/0!",
		"a:10-100",
	},
	"no root": {
		[]string{"b x 0 50", "c y 20 90"},
		"b/0/50/0! c/0/70/0!",
		"c:20-90",
	},
	"a circle": {
		[]string{"a b 0 100", "b a 10 90", "c b 20 30", "d d 0 10"},
		"a/0/20/1! b/1/70/1 c/2/10/0 d/0/10/0!",
		"a:0-10 b:10-20 c:20-30 b:30-90 a:90-100",
	},
	"one id twice": {
		[]string{"a - 0 100", "a a 10 60", "b a 20 30"},
		"a/0/50/2 a/1/50/0 b/1/10/0",
		"a:0-10 a:10-60 a:60-100",
	},
	"no durations": {
		[]string{"a - 0 0", "b a 0 0"},
		"a/0/0/1 b/1/0/0",
		"",
	},
}

func TestTraceTrees(t *testing.T) {
	for name, c := range traceShapes {
		for _, flushed := range []bool{false, true} {
			n := newNode(t, nil)
			putSpans(t, n, c.spans...)
			if flushed {
				n.flush()
			}
			got, err := n.TraceColumns(t.Context(), query.Request{Org: org}, "", "AA")
			if err != nil {
				t.Fatal(err)
			}
			if tree, path := columnsText(got); tree != c.tree || path != c.path {
				t.Errorf("%s (flushed %t):\n got %s | %s\nwant %s | %s", name, flushed, tree, path, c.tree, c.path)
			}
			full, err := n.Trace(t.Context(), query.Request{Org: org}, "", "aa")
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range full.Spans {
				text := fmt.Sprintf("%s/%d/%d/%d", s.SpanID, s.Depth, s.SelfNS/1000, s.Children)
				if s.MissingParent {
					text += "!"
				}
				if !strings.Contains(" "+c.tree+" ", " "+text+" ") {
					t.Errorf("%s: the span %s is not in %s", name, text, c.tree)
				}
			}
			var steps []string
			for _, p := range full.CriticalPath {
				steps = append(steps, p.SpanID)
			}
			var want []string
			for _, p := range strings.Fields(c.path) {
				want = append(want, p[:1])
			}
			expect(t, name+": path", steps, want...)
		}
	}
}

func columnsText(got *query.TraceColumns) (tree, path string) {
	var out, steps []string
	start, err := time.Parse(time.RFC3339Nano, got.Start)
	if err != nil {
		return err.Error(), ""
	}
	for i, id := range got.Spans.ID {
		text := fmt.Sprintf("%s/%d/%d/%d", id, got.Spans.Depth[i], got.Spans.Self[i]/1000, got.Spans.Children[i])
		for _, m := range got.MissingParent {
			if int(m) == i {
				text += "!"
			}
		}
		out = append(out, text)
	}
	zero := (start.UnixNano() - epoch) / 1000
	for _, p := range got.CriticalPath {
		steps = append(steps, fmt.Sprintf("%s:%d-%d", got.Spans.ID[p[0]], zero+p[1]/1000, zero+p[2]/1000))
	}
	return strings.Join(out, " "), strings.Join(steps, " ")
}

func TestTraceColumns(t *testing.T) {
	n := newNode(t, nil)
	putSpans(t, n, "a - 1000 1100", "be a 1010 1040", "c x 1020 1030")
	got, err := n.TraceColumns(t.Context(), query.Request{Org: org}, "default", "aa")
	if err != nil {
		t.Fatal(err)
	}
	got.Answer = nil
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"trace_id":"aa","start":"2026-11-30T00:00:00.001000000Z","duration_ns":100000,"services":["sa","sb","sc"],"names":["op-a","op-be","op-c"],"kinds":["internal"],"statuses":["ok","error"],` +
		`"spans":{"id":["a","be","c"],"parent":[-1,0,-1],"start":[0,10000,20000],"duration":[100000,30000,10000],"self":[70000,30000,10000],"depth":[0,1,0],"children":[1,0,0],` +
		`"service":[0,1,2],"name":[0,1,2],"kind":[0,0,0],"status":[0,1,0]},"missing_parent":[2],"critical_path":[[0,0,10000],[1,10000,40000],[0,40000,100000]]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	for id, kind := range map[string]millstream.Kind{"ff": millstream.NotFound, "x'": millstream.Invalid} {
		if _, err := n.TraceColumns(t.Context(), query.Request{Org: org}, "", id); millstream.KindOf(err) != kind {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestTraceSummary(t *testing.T) {
	n := newNode(t, nil)
	putSpans(t, n, "r - 0 1000", "a r 0 100", "b r 100 900", "c r 100 110", "d b 200 300", "ee b 300 800", "f ee 400 700", "g f 450 460", "h c 102 103")
	req := query.Request{Org: org}
	for budget, want := range map[int]string{
		1: "r", 2: "r a", 3: "r a b", 4: "r a b d", 5: "r a b d ee", 7: "r a b d ee f g", 8: "r a b d ee f g c", 100: "r a b d ee f g c h",
	} {
		s, err := n.SummarizeTrace(t.Context(), req, "", "aa", budget)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, x := range s.Spans {
			ids = append(ids, x.SpanID)
		}
		if got := strings.Join(ids, " "); s.Total != 9 || s.Errors != 1 || len(s.Services) != 9 || got != want {
			t.Errorf("budget %d: %s, want %s; %d spans, %d errors, services %v", budget, got, want, s.Total, s.Errors, s.Services)
		}
	}
	s, err := n.SummarizeTrace(t.Context(), req, "", "aa", 0)
	if err != nil || s.Spans[0].Children != 3 || s.Spans[0].Descendants != 8 || s.Spans[2].Children != 2 || s.DurationNS != 1000_000 {
		t.Errorf("%+v %v", s, err)
	}
	for name, c := range map[string]struct {
		span          string
		offset, limit int
		want          string
	}{
		"of the root": {"r", 0, 0, "3 a b c"}, "a part": {"R", 1, 1, "3 b"}, "beyond": {"r", 7, 1, "3"}, "of a leaf": {"h", 0, 0, "0"}, "roots": {"", 0, 0, "1 r"},
	} {
		got, err := n.TraceChildren(t.Context(), req, "", "aa", c.span, c.offset, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(got.Total)
		for _, x := range got.Spans {
			text += " " + x.SpanID
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
	if _, err := n.TraceChildren(t.Context(), req, "", "aa", "zz", 0, 0); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("an unknown span: %v", err)
	}
	if _, err := n.SummarizeTrace(t.Context(), req, "", "aa", 20_001); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("too large a budget: %v", err)
	}
	one, err := n.Spans(t.Context(), req, "", "aa", "EE")
	if err != nil || len(one.Spans) != 1 || one.Spans[0].Name != "op-ee" {
		t.Errorf("one span: %+v %v", one, err)
	}
}

// TestLargeTrace: a trace of 100,000 spans can be seen whole, in the time and the size that a page has for it.
func TestLargeTrace(t *testing.T) {
	n := newNode(t, nil)
	const total = 100_000
	for from := 0; from < total; from += 10_000 {
		b := millstream.NewBuilder(millstream.Limits{})
		for i := from; i < from+10_000; i++ {
			for k, v := range map[string]string{
				"trace_id": "0123456789abcdef0123456789abcdef", "span_id": fmt.Sprintf("%016x", i*7919+1), "name": fmt.Sprintf("GET /api/v1/things/%d", i%200),
				"service": fmt.Sprintf("service-%d", i%40), "kind": "server", "status": "ok", "http.url": fmt.Sprintf("https://example.com/things/%d", i),
			} {
				b.String([]byte(k), []byte(v))
			}
			if i > 0 {
				b.String([]byte("parent_span_id"), fmt.Appendf(nil, "%016x", (i-1)/8*7919+1))
			}
			b.Int([]byte("duration_ns"), int64(total-i)*1000)
			if err := b.Commit(epoch + int64(i)*1000); err != nil {
				t.Fatal(err)
			}
		}
		n.append(millstream.Traces, "default", b.Batch())
	}
	n.flush()
	req := query.Request{Org: org, Range: day}
	if _, err := n.TraceColumns(t.Context(), req, "", "0123456789abcdef0123456789abcdef"); err != nil { // the segment is open from here on
		t.Fatal(err)
	}
	began := time.Now()
	got, err := n.TraceColumns(t.Context(), req, "", "0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("%d spans in %s, %d bytes", len(got.Spans.ID), took, len(text))
	if len(got.Spans.ID) != total || len(text) > 15<<20 || len(got.Warnings) > 0 {
		t.Errorf("%d spans, %d bytes, %v", len(got.Spans.ID), len(text), got.Warnings)
	}
	s, err := n.SummarizeTrace(t.Context(), req, "", "0123456789abcdef0123456789abcdef", 0)
	if err != nil || len(s.Spans) != 2000 || s.Total != total {
		t.Errorf("summary: %d of %d spans, %v", len(s.Spans), s.Total, err)
	}
	full, err := n.Trace(t.Context(), req, "", "0123456789abcdef0123456789abcdef")
	if err != nil || len(full.Spans) != 20_000 || len(full.Warnings) != 1 || full.Spans[0].ParentSpanID != "" {
		t.Errorf("in full: %d spans, %v %v", len(full.Spans), full.Warnings, err)
	}
}
