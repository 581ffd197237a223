package api

import (
	"context"
	"testing"
	"time"

	"github.com/millstream/millstream/query"
)

// probe answers every statement with nothing and remembers it.
type probe struct {
	fakeQueries
	got query.Request
}

func (p *probe) Run(_ context.Context, req query.Request, sink query.Sink) (*query.Answer, error) {
	p.got = req
	return &query.Answer{}, sink.Columns([]query.Column{})
}

// The range of a call is read on the clock of the zone that it names; a text that cannot be read is pointed into.
func TestTimeRange(t *testing.T) {
	p := &probe{}
	w := newWorld(t, func(a *API) { a.Query = p })
	token := w.root()
	call := func(span map[string]any) (body map[string]any) {
		return map[string]any{"language": "sql", "statement": "SELECT 1", "time_range": span}
	}
	for name, c := range map[string]struct {
		span       map[string]any
		start, end string
	}{
		"start and end": {map[string]any{"start": "2026-03-29 02:30", "end": "2026-03-29T04:00:00Z", "zone": "Europe/Berlin"}, "2026-03-29T01:30:00Z", "2026-03-29T04:00:00Z"},
		"text":          {map[string]any{"text": "2026-07-01 08:00 to 09:00", "zone": "Europe/Berlin"}, "2026-07-01T06:00:00Z", "2026-07-01T07:00:00Z"},
		"no zone":       {map[string]any{"text": "2026-07-01 to 2026-07-02"}, "2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z"},
	} {
		w.want(200, "POST", "/api/v1/query", token, call(c.span), nil)
		if start, end := time.Unix(0, p.got.Range.Start).UTC().Format(time.RFC3339), time.Unix(0, p.got.Range.End).UTC().Format(time.RFC3339); start != c.start || end != c.end {
			t.Errorf("%s: %s to %s, want %s to %s", name, start, end, c.start, c.end)
		}
	}
	for name, c := range map[string]struct {
		span     map[string]any
		position int
	}{
		"a bad text":     {map[string]any{"text": "now-5x to now"}, 6},
		"a bad zone":     {map[string]any{"text": "today", "zone": "Middle/Earth"}, 0},
		"text and start": {map[string]any{"text": "today", "start": "now-1h"}, 0},
	} {
		if d := w.call("POST", "/api/v1/query", token, call(c.span)).problem(t); d.Code == "" || d.Position != c.position {
			t.Errorf("%s: %+v, want position %d", name, d, c.position)
		}
	}
}
