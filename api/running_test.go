package api

import (
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// tasks are the running queries of one node.
type tasks struct {
	cutQuerier
	mu      sync.Mutex
	list    []query.Running
	stopped []string
}

func (q *tasks) Running(millstream.OrgID) []query.Running {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]query.Running(nil), q.list...)
}

func (q *tasks) Cancel(org millstream.OrgID, id string) error { return q.Stop(org, id) }

func (q *tasks) Stop(_ millstream.OrgID, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.list {
		if r.ID == id {
			q.stopped = append(q.stopped, id)
			return nil
		}
	}
	return millstream.Errorf(millstream.NotFound, "there is no running query %q", id)
}

func (*tasks) Progress(millstream.OrgID, string) (query.Progress, bool) {
	return query.Progress{}, false
}

// What runs is one list over all queriers, and can be ended from anywhere.
func TestRunningOnAllQueriers(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_800_000_000, 0).UTC()
	nodes := map[string]*tasks{
		"alone": {},
		"q-1":   {list: []query.Running{{ID: "x", Started: began.Add(time.Second)}}},
		"q-2":   {list: []query.Running{{ID: "y/z", Started: began}, {ID: "x", Started: began.Add(2 * time.Second)}}},
	}
	s := newSplit(t, "", func(a *API, id string) { a.Query, a.Queries = nodes[id], nodes[id] }, "q-1", "q-2")
	var v runningQueriesView
	s.via("GET", "/api/v1/query/running", nil).into(t, &v)
	if len(v.Queries) != 3 || v.Queries[0].ID+v.Queries[0].Node+v.Queries[1].ID+v.Queries[1].Node+v.Queries[2].Node != "y/zq-2xq-1q-2" || v.Warnings != nil {
		t.Errorf("%+v", v)
	}
	if a := s.via("DELETE", "/api/v1/query/running/x", nil); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.via("POST", "/api/v1/query/running/y%2Fz/stop", nil); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if one, two := nodes["q-1"].stopped, nodes["q-2"].stopped; len(one) != 1 || len(two) != 2 || two[1] != "y/z" {
		t.Errorf("ended %v and %v", one, two)
	}
	checkProblem(t, "runs nowhere", s.via("DELETE", "/api/v1/query/running/w", nil), 404, "not_found", `no running query "w"`)

	s.peers["q-1"].set(errLost, 0)
	v = runningQueriesView{}
	s.via("GET", "/api/v1/query/running", nil).into(t, &v)
	if len(v.Queries) != 2 || len(v.Warnings) != 1 || v.Warnings[0] != "the querier q-1 cannot be reached: its queries are not listed" {
		t.Errorf("%+v", v)
	}
	checkProblem(t, "may run on a node that is away", s.via("DELETE", "/api/v1/query/running/w", nil), 503, "unavailable", "it may run on q-1")
	if a := s.via("DELETE", "/api/v1/query/running/x", nil); a.status != 204 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A node that is a querier too asks itself without the detour, and once.
func TestRunningOnARouterThatQueries(t *testing.T) {
	t.Parallel()
	nodes := map[string]*tasks{"alone": {}, "q-1": {list: []query.Running{{ID: "a"}}}, "q-2": {list: []query.Running{{ID: "b"}}}}
	s := newSplit(t, "", func(a *API, id string) { a.Query, a.Queries = nodes[id], nodes[id] }, "q-1", "q-2")
	both := *s.routing
	both.Registerer, both.Gatherer = newRegistry()
	both.Node, both.Query, both.Queries = "q-1", nodes["q-1"], nodes["q-1"]
	s.router = both.with(t, both.queryRoutes()...)
	var v runningQueriesView
	s.via("GET", "/api/v1/query/running", nil).into(t, &v)
	if len(v.Queries) != 2 || len(s.peers["q-1"].asked) != 0 || len(s.peers["q-2"].asked) != 1 {
		t.Errorf("%+v", v)
	}
	if a := s.via("POST", "/api/v1/query", `{"statement":"SELECT 1"}`); a.status != 200 || len(s.peers["q-1"].asked) != 0 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
