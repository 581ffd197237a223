package api

import (
	"context"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

func TestFileName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"errors": "errors", "Shop / RED": "Shop---RED", "a/../b\\c": "a----b-c", "../../etc/passwd": "etc-passwd", ".hidden": "hidden", "größe 7": "gr--e-7", "x\r\nSet-Cookie: y": "x--Set-Cookie--y",
		"\x00": "absent", ". .": "absent", "": "absent", "日誌": "absent", "quote\"; x=\"y": "quote---x--y",
	} {
		if got := fileName(name, "absent"); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := fileName(strings.Repeat("x", 500), ""); len(got) != maxFileName {
		t.Errorf("a long name has %d characters", len(got))
	}
}

// plainQueries answers one row, or fails.
type plainQueries struct {
	querier
	err error
}

func (q *plainQueries) Run(_ context.Context, _ query.Request, sink query.Sink) (*query.Answer, error) {
	if q.err != nil {
		return nil, q.err
	}
	if err := sink.Columns([]query.Column{{Name: "n", Type: "BIGINT"}}); err != nil {
		return nil, err
	}
	r := &query.Rows{N: 1, Columns: []millstream.Column{{Name: "n", Type: millstream.Int64, Ints: []int64{7}}}}
	return &query.Answer{Warnings: []string{}}, sink.Rows(r)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	f := &plainQueries{}
	w := newWorld(t, func(a *API) { a.Query = f })
	token := w.root()
	for accept, want := range map[string]string{
		"text/csv": "my-errors.csv", "application/x-ndjson": "my-errors.ndjson", "application/json": "my-errors.json", "application/vnd.apache.parquet": "my-errors.parquet",
		"application/vnd.apache.arrow.stream": "my-errors.arrows",
	} {
		for _, name := range []string{"my%20errors", "my%20errors" + want[strings.IndexByte(want, '.'):]} {
			a := w.want(200, "POST", "/api/v1/query?download="+name, token, `{"statement":"x"}`, nil, "Accept", accept)
			if got := a.header.Get("Content-Disposition"); got != `attachment; filename="`+want+`"` {
				t.Errorf("%s as %s: %s", name, accept, got)
			}
		}
	}
	if a := w.want(200, "POST", "/api/v1/query", token, `{"statement":"x"}`, nil); a.header.Get("Content-Disposition") != "" {
		t.Errorf("without a name: %s", a.header.Get("Content-Disposition"))
	}
	f.err = millstream.Errorf(millstream.Invalid, "no")
	if a := w.want(400, "POST", "/api/v1/query?download=x", token, `{"statement":"x"}`, nil); a.header.Get("Content-Disposition") != "" {
		t.Errorf("an error is no file: %s", a.header.Get("Content-Disposition"))
	}
}
