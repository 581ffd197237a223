package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	owner, viewer := h.author(h.owner, auth.Owner), h.author(h.add("v@example.test", auth.Viewer), auth.Viewer)
	other := store.Author{Org: storetest.Org(t, h.Store), User: uuid.NewString(), Editor: true}
	for _, name := range []string{"checkout", "app-checkout", "checks.old"} {
		must(h.EnsureStream(ctx, millstream.StreamKey{Org: h.org.ID, Signal: millstream.Logs, Name: name}))(t)
	}
	must(h.EnsureStream(ctx, millstream.StreamKey{Org: h.org.ID, Signal: millstream.Metrics, Name: "checkout_metrics"}))(t)
	must(h.CreateDocument(ctx, owner, store.Dashboard, shared(text("Checkout", `{}`)), h.entry("x")))(t)
	must(h.CreateDocument(ctx, owner, store.View, text("My check", `{}`), h.entry("x")))(t)
	must(h.SetPreferences(ctx, owner, store.AnyVersion, text("check", `{}`), h.entry("x")))(t)
	gone := must(h.CreateDocument(ctx, owner, store.View, shared(text("check gone", `{}`)), h.entry("x")))(t)
	check(t, h.DeleteDocument(ctx, owner, store.View, gone.ID, 1, h.entry("x")))

	for _, c := range []struct {
		by         store.Author
		text, want string
	}{
		{owner, "check", "2 My check, 1 Checkout, 1 checkout, 1 checks.old, 2 app-checkout"},
		{viewer, "check", "1 Checkout, 1 checkout, 1 checks.old, 2 app-checkout"},
		{owner, "checkout", "0 Checkout, 0 checkout, 2 app-checkout"},
		{owner, "ckt", "4 Checkout, 4 checkout, 4 app-checkout"},
		{owner, "eck", "3 My check, 3 Checkout, 3 checkout, 3 checks.old, 3 app-checkout"},
		{other, "check", ""},
		{owner, "%", ""},
		{owner, `\`, ""},
		{owner, "_", ""},
		{owner, "\x00", ""},
	} {
		hits, err := h.Search(ctx, c.by, c.text, 20)
		if c.text == "\x00" {
			wantKind(t, err, millstream.NotFound)
			continue
		}
		check(t, err)
		var got []string
		for _, hit := range hits {
			got = append(got, fmt.Sprint(hit.Rank, " ", hit.Name))
		}
		want := strings.Split(c.want, ", ")
		if c.want == "" {
			want = nil
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", c.text, got, want)
		}
	}
	for i := range 200 {
		must(h.EnsureStream(ctx, millstream.StreamKey{Org: h.org.ID, Signal: millstream.Logs, Name: fmt.Sprintf("c%03d-h", i)}))(t)
	}
	if hits := must(h.Search(ctx, owner, "ch", 2))(t); !slices.ContainsFunc(hits, func(hit store.Hit) bool { return hit.Name == "checkout" && hit.Rank == 1 }) || len(hits) > 20 {
		t.Errorf("the best ones among many: %+v", hits)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"up", "up", 0}, {"uptime", "up", 1}, {"node_up", "up", 2}, {"group_up", "up", 2}, {"group", "up", 3}, {"usepath", "up", 4}, {"pu", "up", store.NoMatch}, {"größe", "gß", 4}, {"größe", "ßö", store.NoMatch}, {"größe", "öe", 4}, {"ab", "abc", store.NoMatch}, {"ü", "ö", store.NoMatch}, {"", "x", store.NoMatch},
	} {
		if got := store.Match(c.name, c.text); got != c.want {
			t.Errorf("%q in %q: %d, want %d", c.text, c.name, got, c.want)
		}
	}
}

// The palette asks while somebody types: 10,000 streams and 10,000 dashboards are to be searched in 20 ms.
func BenchmarkSearch(b *testing.B) {
	url := storetest.URL(b)
	h := newHomeAt(b, storetest.Open(b, url))
	execSQL(b, url, `INSERT INTO streams (id, org_id, signal, name, fields) SELECT gen_random_uuid(), $1, 1, 'service-' || i || '.prod', '[{"name":"a","type":"string"}]' FROM generate_series(1, 10000) i`, string(h.org.ID))
	execSQL(b, url, `INSERT INTO documents (id, org_id, kind, owner_id, name, shared, version, summary, created_at, updated_at, updated_by)
		SELECT gen_random_uuid(), $1, 'dashboard', $2, 'Dashboard of service ' || i, true, 1, '{"panels":12,"tags":["shop"]}', now(), now(), 'x' FROM generate_series(1, 10000) i`, string(h.org.ID), h.owner.ID)
	execSQL(b, url, `ANALYZE`)
	by := h.author(h.owner, auth.Owner)
	for _, text := range []string{"service-99", "e", "dash 77", "srvc", "nothing like it"} {
		b.Run(strings.ReplaceAll(text, " ", "_"), func(b *testing.B) {
			fastest := time.Hour // on a machine that is busy with other work this is what the search costs
			for b.Loop() {
				began := time.Now()
				if _, err := h.Search(ctx, by, text, 20); err != nil {
					b.Fatal(err)
				}
				fastest = min(fastest, time.Since(began))
			}
			b.ReportMetric(float64(fastest.Microseconds())/1000, "min-ms")
		})
	}
}
