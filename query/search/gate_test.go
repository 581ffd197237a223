package search

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

var openGate = sync.OnceValues(sql.NewGate)

// planOf gives the kernels' plan of a search over the test's fields; nil with an error that the text may have, such as too many comments.
func planOf(t testing.TB, filter string) (*sql.Plan, error) {
	t.Helper()
	g, err := openGate()
	if err != nil {
		t.Fatal(err)
	}
	text := "SELECT * FROM app"
	if filter != "" {
		text += " WHERE " + filter
	}
	s, err := g.Parse(t.Context(), text, sql.Params{})
	if err != nil {
		return nil, err
	}
	if refs := s.Tables(); len(refs) != 1 || refs[0].Name != "app" {
		t.Fatalf("%s has the tables %v", text, refs)
	}
	key := millstream.StreamKey{Org: "o", Signal: millstream.Logs, Name: "app"}
	b, err := s.Bind(t.Context(), []sql.Table{{Key: key, Fields: testFields()}}, now)
	if err != nil {
		return nil, err
	}
	return b.Plan, nil
}

// checked parses a text, and if it is a search checks that its SQL is a plan of kernels over the one stream, which no text that left its literal would be.
func checked(t testing.TB, text string) {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		var e *millstream.Error
		if !errors.As(err, &e) || e.Kind != millstream.Invalid && e.Kind != millstream.TooLarge {
			t.Fatalf("%q: %v", text, err)
		}
		if e.Position < 0 || e.Position > utf8.RuneCountInString(text)+1 || e.Position == 0 && utf8.ValidString(text) && len(text) <= MaxText {
			t.Fatalf("%q: position %d: %v", text, e.Position, err)
		}
		return
	}
	c := q.Compile(testFields(), now)
	if len(c.SQL) > 32<<10 || strings.Count(c.SQL, "/*") > 64 {
		return // the gate says so
	}
	p, err := planOf(t, c.SQL)
	if err != nil {
		t.Fatalf("%q becomes %s: %v", text, c.SQL, err)
	}
	if p == nil || !p.Star || p.Aggregate || p.Limit != -1 || p.Offset != 0 || len(p.Order) > 0 {
		t.Fatalf("%q becomes %s, whose plan is %+v", text, c.SQL, p)
	}
}

func FuzzSearch(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Search)
	}
	f.Add("level:'; DROP TABLE app; --")
	f.Add(`"a\" OR 1=1 --"`)
	f.Add(strings.Repeat("(", 200))
	f.Fuzz(func(t *testing.T, text string) {
		checked(t, text)
		n := utf8.RuneCountInString(text)
		for _, cursor := range []int{-1, 0, n / 2, n, n + 7} {
			if p := At(text, cursor); p.From < 0 || p.From > p.To || p.To > n {
				t.Fatalf("%q at %d: %+v", text, cursor, p)
			}
		}
	})
}

// Every search that the golden file has is one that kernels run, without DuckDB.
func TestSearchesArePlans(t *testing.T) {
	for _, v := range vectors(t) {
		checked(t, v.Search)
	}
}

// Any value that is quoted comes back as itself, in a comparison and through the SQL.
func TestValuesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune(`aZ09 '"\*%_:;()[]{}/-!=<>$?#,.` + "\t\nßé日\u202e\U0001f600")
	for range 300 {
		text := make([]rune, 1+r.IntN(12))
		for i := range text {
			text[i] = alphabet[r.IntN(len(alphabet))]
		}
		value := string(text)
		for search, want := range map[string]segment.Expr{
			"level=" + Quoted(value):        segment.Compare{Field: "level", Op: segment.Eq, Value: segment.Value{Kind: segment.StringValue, Str: value}},
			quotedName(`odd "name"`) + ":*": segment.Not{X: segment.IsNull{Field: `odd "name"`}},
			"level!=" + quote(value): segment.Or{segment.IsNull{Field: "level"},
				segment.Compare{Field: "level", Op: segment.Ne, Value: segment.Value{Kind: segment.StringValue, Str: value}}},
		} {
			q, err := Parse(search)
			if err != nil {
				t.Fatalf("%q: %v", search, err)
			}
			p, err := planOf(t, q.Compile(testFields(), now).SQL)
			if err != nil || p == nil || !reflect.DeepEqual(p.Filter, want) {
				t.Errorf("%q: %+v %v", search, p, err)
			}
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	for _, name := range []string{"level", "service.name", `odd "name"`, "and", "NOT", "12", "a b", `back\slash`, "größe", "a:b", "日本", "-x", "_exists", "", "k8s.io/app"} {
		q, err := Parse(quotedName(name) + `="x"`)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if n, ok := q.root.(*term); !ok || n.field != name || n.text != "x" {
			t.Errorf("%q comes back as %+v", name, q.root)
		}
	}
}

func TestLimits(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("(", n) + "x" + strings.Repeat(")", n) }
	for text, want := range map[string]millstream.Kind{
		deep(maxDepth):                        0,
		deep(maxDepth + 1):                    millstream.Invalid,
		strings.Repeat("not ", 101) + "x":     millstream.Invalid,
		strings.Repeat("x", MaxText):          0,
		strings.Repeat("x", MaxText+1):        millstream.TooLarge,
		"level:" + deep(5000):                 millstream.Invalid,
		"\xff":                                millstream.Invalid,
		"a\x00b":                              millstream.Invalid,
		strings.Repeat("a:b or ", 2000) + "x": 0,
	} {
		_, err := Parse(text)
		if kind := millstream.KindOf(err); (err == nil) != (want == 0) || err != nil && kind != want {
			t.Errorf("%.20q (%d bytes): %v", text, len(text), err)
		}
	}
	// A long and flat search is one that the gate takes.
	q, err := Parse(strings.TrimSuffix(strings.Repeat("timeout or ", 1500), " or "))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := planOf(t, q.Compile(testFields(), now).SQL); err != nil || p == nil || len(p.Filter.(segment.Or)) != 1500 {
		t.Errorf("%v", err)
	}
}

// What a search costs must not be the number of its words times the number of the stream's fields, nor the square of its wildcards: nothing can cancel it.
func TestCostOfHostileSearches(t *testing.T) {
	wide := make([]millstream.Field, 50_000)
	for i := range wide {
		wide[i] = millstream.Field{Name: fmt.Sprintf("some.group%d.value", i), Type: millstream.String}
	}
	for _, text := range []string{
		strings.Repeat("0123456789abcdef ", 3800), strings.Repeat("nofield:1 ", 6500), strings.Repeat("a*", 32_000), strings.Repeat("(", 99) + strings.Repeat("a b or ", 9000) + "c" + strings.Repeat(")", 99),
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
		at := time.Now()
		if q.Compile(wide, now).SQL == "" && !strings.HasPrefix(text, "nofield") {
			t.Errorf("%.20q is no condition", text)
		}
		if took := time.Since(at); took > 30*time.Second { // hundredths of a second on a quiet machine
			t.Errorf("%.20q took %s", text, took)
		}
	}
	f := newFields(append(wide, millstream.Field{Name: "trace_id", Type: millstream.String}))
	if first, second := f.ids(), f.ids(); len(first) != 1 || &first[0] != &second[0] {
		t.Errorf("the id fields are %v and looked for again", first)
	}
}
