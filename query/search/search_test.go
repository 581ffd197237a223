package search

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// now is when the tests' searches are compiled.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func testFields() []millstream.Field {
	return []millstream.Field{
		{Name: "level", Type: millstream.String}, {Name: "message", Type: millstream.String}, {Name: "service.name", Type: millstream.String},
		{Name: "status", Type: millstream.Int64}, {Name: "took", Type: millstream.Double}, {Name: "ok", Type: millstream.Bool},
		{Name: "started", Type: millstream.Timestamp}, {Name: "code", Type: millstream.String}, {Name: "trace_id", Type: millstream.String},
		{Name: `odd "name"`, Type: millstream.String}, {Name: "User", Type: millstream.String}, {Name: "user", Type: millstream.String},
		{Name: "Host", Type: millstream.String}, {Name: "path", Type: millstream.String},
	}
}

// vector is one case of the golden file, which docs and other clients of the language can rely on.
type vector struct {
	Search   string   `json:"search"`
	SQL      *string  `json:"sql,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Terms    []Term   `json:"terms,omitempty"`
	Error    string   `json:"error,omitempty"`
	Hint     string   `json:"hint,omitempty"`
	Position int      `json:"position,omitempty"`
}

func answer(text string) vector {
	v := vector{Search: text}
	q, err := Parse(text)
	if err != nil {
		var e *millstream.Error
		errors.As(err, &e)
		v.Error, v.Hint, v.Position = e.Msg, e.Hint, e.Position
		return v
	}
	c := q.Compile(testFields(), now)
	v.SQL, v.Warnings, v.Terms = &c.SQL, c.Warnings, c.Terms
	return v
}

const vectorFile = "testdata/search_vectors.json"

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	text, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVectors(t *testing.T) {
	want := vectors(t)
	got := make([]vector, len(want))
	for i, v := range want {
		got[i] = answer(v.Search)
		a, b := asJSON(t, got[i]), asJSON(t, v)
		if a != b && !*update {
			t.Errorf("%s\n got %s\nwant %s", v.Search, a, b)
		}
	}
	if *update {
		out := "[\n"
		for i, v := range got {
			if out += "  " + asJSON(t, v); i < len(got)-1 {
				out += ","
			}
			out += "\n"
		}
		if err := os.WriteFile(vectorFile, []byte(out+"]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	var b jsonBuffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(b[:len(b)-1])
}

type jsonBuffer []byte

func (b *jsonBuffer) Write(p []byte) (int, error) { *b = append(*b, p...); return len(p), nil }
