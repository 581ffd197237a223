package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// listed are the names in the telemetry of every organization that is asked for.
type listed struct {
	services, metrics []string
	err               error
	reads             atomic.Int64
	wait              chan struct{} // nil: at once
	orgs              chan string
}

func (l *listed) ServiceNames(_ context.Context, req query.Request) ([]string, error) {
	l.reads.Add(1)
	if l.wait != nil {
		<-l.wait
	}
	if l.orgs != nil {
		l.orgs <- string(req.Org)
	}
	return l.services, l.err
}

func (l *listed) MetricNames(context.Context, query.Request) ([]string, error) {
	return l.metrics, l.err
}

func (w *world) found(token, query string) []string {
	w.t.Helper()
	var v findView
	w.want(200, "GET", "/api/v1/search?q="+query, token, nil, &v)
	out := []string{}
	for _, r := range v.Results {
		out = append(out, r.Kind+" "+r.Title)
	}
	return out
}

func TestFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *API) {
		a.Names = &listed{services: []string{"checkout", "cart"}, metrics: []string{"checkout_total", "up", "http_checkouts"}}
	})
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.stream(me.Organization.ID, "checkout")
	board := aDashboard("Checkout & more")
	board.Shared, board.Body.Folder = true, "shop"
	var d, v documentHead
	w.want(201, "POST", dashboardsPath, root, board, &d)
	view := aView("checkout errors")
	w.want(201, "POST", viewsPath, root, view, &v)

	var all findView
	w.want(200, "GET", "/api/v1/search?q=Checkout", root, nil, &all)
	want := []foundView{
		{"stream", "checkout", "logs", "/default/logs?stream=checkout"},
		{"service", "checkout", "", "/default/services?service=checkout"},
		{"dashboard", "Checkout & more", "shop", "/default/dashboards/" + d.ID},
		{"view", "checkout errors", "logs", "/default/logs?f=service%3Aeq%3Acart&f=a%3Aeq%3Ab&q=level%3Aerror&view=" + v.ID},
		{"metric", "checkout_total", "", "/default/metrics?q=checkout_total"},
		{"metric", "http_checkouts", "", "/default/metrics?q=http_checkouts"},
	}
	if !slices.Equal(all.Results, want) {
		t.Errorf("%+v", all.Results)
	}
	if got := w.found(viewer, "checkout+errors"); len(got) != 0 {
		t.Errorf("somebody else's private view: %v", got)
	}
	if got := w.found(root, "cht&limit=1"); len(got) != 1 {
		t.Errorf("limit 1: %v", got)
	}
	const id = "4BF92F3577B34DA6A3CE929D0E0E4736"
	if got := w.found(root, id); !slices.Equal(got, []string{"trace " + strings.ToLower(id)}) {
		t.Errorf("a trace id: %v", got)
	}
	for _, q := range []string{"", "+", "zzz", "%25", "%5C"} {
		if got := w.found(root, q); len(got) != 0 {
			t.Errorf("%q finds %v", q, got)
		}
	}
	for _, q := range []string{"%00", strings.Repeat("x", 10<<10), "a&limit=0", "a&limit=101", "a&limit=x"} {
		checkProblem(t, q[:min(len(q), 20)], w.call("GET", "/api/v1/search?q="+q, root, nil), 400, "invalid_argument", "")
	}
	sender, _ := w.apiToken(root, "intake")
	w.want(403, "GET", "/api/v1/search?q=a", sender, nil, nil)
}

func TestFindOfAnotherOrganization(t *testing.T) {
	t.Parallel()
	names := &listed{services: []string{"checkout"}, orgs: make(chan string, 2)}
	w := newWorld(t, func(a *API) { a.Names = names })
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.stream(me.Organization.ID, "checkout")
	shared := aView("checkout")
	shared.Shared = true
	w.want(201, "POST", viewsPath, root, shared, nil)
	owner, org := w.other()
	if got := w.found(owner, "checkout"); slices.Contains(got, "view checkout") || slices.Contains(got, "stream checkout") {
		t.Errorf("%v", got)
	}
	if asked := <-names.orgs; asked != string(org.ID) {
		t.Errorf("the names of %s were read for %s", asked, org.ID)
	}
}

// Names are read once a minute at most, a slow reading holds no search up, and a failed one leaves what there was.
func TestNamesAreReadAside(t *testing.T) {
	t.Parallel()
	names := &listed{services: []string{"checkout"}, wait: make(chan struct{})}
	w := newWorld(t, func(a *API) { a.Names = names })
	root := w.root()
	for range 3 {
		if got := w.found(root, "checkout"); len(got) != 0 {
			t.Errorf("before they were read: %v", got)
		}
	}
	close(names.wait)
	deadline := time.Now().Add(time.Minute)
	for len(w.found(root, "checkout")) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the names were never read")
		}
	}
	if n := names.reads.Load(); n != 1 {
		t.Errorf("the names were read %d times", n)
	}
	names.err = errors.New("no")
	w.advance(2 * time.Minute)
	if got := w.found(w.root(), "checkout"); len(got) != 1 {
		t.Errorf("after a failed reading: %v", got)
	}
	if n := names.reads.Load(); n != 2 {
		t.Errorf("the names were read %d times", n)
	}
}

// However many organizations search, the lists of a few are kept.
func TestNamesAreBounded(t *testing.T) {
	n := &names{read: &listed{services: []string{"a"}}, log: nil, now: time.Now, orgs: map[millstream.OrgID]*orgNames{}}
	for i := range 3 * maxNamesOrgs {
		n.of(t.Context(), millstream.OrgID(fmt.Sprint(i)))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.orgs) != maxNamesOrgs {
		t.Errorf("the lists of %d organizations are kept", len(n.orgs))
	}
}

// The best of a long list are found whatever their place in it.
func TestMatchingLongLists(t *testing.T) {
	var all []string
	for i := range 50_000 {
		all = append(all, fmt.Sprintf("metric_%05d_up", i))
	}
	all = append(all, "up")
	got := matching(all, "up", 3, ranked{})
	if len(got) != 3 || got[0].Title != "up" || got[1].Title != "metric_00000_up" || got[2].Title != "metric_00001_up" {
		t.Errorf("%+v", got)
	}
}

func BenchmarkMatching(b *testing.B) {
	var all []string
	for i := range 100_000 {
		all = append(all, fmt.Sprintf("node_subsystem_%06d_bytes_total", i))
	}
	for _, text := range []string{"node_subsystem_0999", "nsbt", "nothing"} {
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				matching(all, text, 20, ranked{})
			}
		})
	}
}
