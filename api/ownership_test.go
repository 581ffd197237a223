package api

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/rpc"
	"github.com/millstream/millstream/store"
)

// publish makes n segments of a stream, of 100 bytes each, one a minute from a time on.
func (w *world) publish(s store.Stream, n int, from time.Time) []millstream.Segment {
	w.t.Helper()
	ctx, wal := context.Background(), millstream.WALID(uuid.NewString())
	node := millstream.Member{ID: millstream.NodeID("publisher-" + string(wal)), Addr: "127.0.0.1:1", Roles: []string{"intake"}, MilliCPU: 1000}
	incarnation, err := w.store.StartNode(ctx, node)
	if err == nil {
		_, err = w.store.TakeWAL(ctx, store.WALTake{ID: wal, Node: node.ID, Incarnation: incarnation, Addr: node.Addr, Identity: string(wal)})
	}
	f := millstream.Flush{WAL: wal, Node: node.ID, Incarnation: incarnation, To: 1, Checksum: "sum"}
	for i := range n {
		id, at := uuid.NewString(), from.Add(time.Duration(i)*time.Minute).UnixNano()
		f.Segments = append(f.Segments, millstream.Segment{
			ID: millstream.SegmentID(id), Org: s.Key.Org, Stream: s.ID, Signal: s.Key.Signal, MinTime: at - 1000, MaxTime: at, Rows: 10,
			Data: millstream.Extent{Key: "data/" + id, Length: 90, Checksum: "d"}, Index: millstream.Extent{Key: "index/" + id, Length: 10, Checksum: "i"}, WAL: wal, To: 1,
		})
	}
	if err == nil {
		_, _, err = w.store.Publish(ctx, f)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Segments
}

// queriers are members with volumes of their own.
func queriersOf(cpus map[string]int) (out members) {
	for id, n := range cpus {
		out = append(out, millstream.Member{ID: millstream.NodeID(id), PlacementID: "volume-of-" + id, Roles: []string{cluster.Querier}, MilliCPU: n * 1000})
	}
	return out
}

var aroundNoon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestOwnership(t *testing.T) {
	t.Parallel()
	all := queriersOf(map[string]int{"a": 16, "b": 16, "c": 8})
	for i := range all {
		all[i].HeartbeatAt = aroundNoon
	}
	all[0].HeartbeatAt = aroundNoon.Add(-20 * time.Second)
	silent := string(all[0].ID)
	view := cluster.NewView(all, aroundNoon, cluster.Timeouts{})
	warm := 87.5
	s := newSplit(t, "", func(a *API, _ string) {
		a.View = func() *cluster.View { return view }
		a.Nodes = &all
	}, "a", "b", "c")
	s.peers["a"].say(rpc.Status{Cached: 1000, Warm: &warm})
	s.peers["b"].say(rpc.Status{Cached: 0})
	s.peers["c"].set(errLost, 0)
	var me meView
	s.want(200, "GET", "/api/v1/auth/me", s.token, nil, &me)

	get := func(query string) (v ownershipView) {
		t.Helper()
		a := s.via("GET", v1+"/cluster/ownership"+query, nil)
		if a.into(t, &v); a.status != 200 {
			t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		return v
	}
	if v := get(""); v.Segments != 0 || len(v.Members) != 3 || v.Heatmap.Buckets != 0 || !v.Heatmap.Start.IsZero() || v.Members[0].Expected != .4 {
		t.Errorf("of nothing: %+v", v)
	}

	app := s.publish(s.stream(me.Organization.ID, "app"), 600, aroundNoon)
	s.publish(s.stream(me.Organization.ID, "other"), 60, aroundNoon.Add(-time.Hour))
	stranger, org := s.other()
	theirs := s.publish(s.stream(string(org.ID), "theirs"), 50, aroundNoon)

	v := get("?buckets=11")
	if v.Segments != 660 || v.Bytes != 66_000 || v.PlacementVersion != 1 || v.Heatmap.Buckets != 11 || !v.Heatmap.Start.Equal(aroundNoon.Add(-time.Hour)) {
		t.Errorf("%+v", v)
	}
	inCells := 0
	for i, m := range v.Members {
		segments, bytes := 0, int64(0)
		for j, n := range v.Heatmap.Rows[i].Segments {
			segments, bytes = segments+n, bytes+v.Heatmap.Rows[i].Bytes[j]
		}
		inCells += segments
		if v.Heatmap.Rows[i].ID != m.ID || segments != m.Segments || bytes != m.Bytes || m.Bytes != int64(100*m.Segments) || m.PlacementID != "volume-of-"+m.ID {
			t.Errorf("%+v has %d segments of %d bytes in the heatmap", m, segments, bytes)
		}
		if math.Abs(m.Actual-m.Expected) > .06 || m.Actual != float64(m.Segments)/660 {
			t.Errorf("%+v", m)
		}
		if want := map[bool]string{true: "silent", false: "up"}[m.ID == silent]; m.State != want {
			t.Errorf("%s is %s", m.ID, m.State)
		}
	}
	if inCells != 660 {
		t.Errorf("%d segments in the heatmap", inCells)
	}
	if a, b, c := v.Members[0], v.Members[1], v.Members[2]; *a.CachedBytes != 1000 || *a.WarmPercent != 87.5 || *b.CachedBytes != 0 || b.WarmPercent != nil || c.CachedBytes != nil || c.Weight != 8 {
		t.Errorf("%+v", v.Members)
	}
	v = get("?buckets=2&start=2026-11-30T12:00:00Z&end=2026-11-30T13:00:00Z&stream=app")
	if v.Segments != 600 || v.Heatmap.BucketSeconds != 1800 || v.Heatmap.Rows[0].Segments[0]+v.Heatmap.Rows[1].Segments[0]+v.Heatmap.Rows[2].Segments[0] != 30 {
		t.Errorf("%+v", v)
	}

	var r rankingView
	answer := s.via("GET", v1+"/cluster/ownership/segments/"+strings.ToUpper(string(app[7].ID)), nil)
	answer.into(t, &r)
	owner, _ := view.Placement().Owner(cluster.SegmentKey(app[7].ID))
	if len(r.Ranking) != 3 || r.Ranking[0].ID != string(owner.Node) || r.Ranking[0].Cost > r.Ranking[1].Cost || r.Ranking[1].Cost > r.Ranking[2].Cost || r.Ranking[2].Rank != 3 || r.Ranking[0].Cost <= 0 || r.Ranking[2].Cost > 64/8. {
		t.Errorf("%+v", r)
	}
	if r.Stream != "app" || r.Signal != "logs" || r.Bytes != 100 || r.Rows != 10 || !r.End.Equal(aroundNoon.Add(7*time.Minute)) {
		t.Errorf("%+v", r)
	}
	_, editor := s.member(s.token, "editor@example.com", "editor")
	for what, c := range map[string]struct {
		path, token, code, message string
		status                     int
	}{
		"a segment of others":       {"/segments/" + string(theirs[0].ID), s.token, "not_found", "no live segment", 404},
		"another organization":      {"", stranger, "permission_denied", "installation", 403},
		"an unknown one":            {"/segments/" + uuid.NewString(), s.token, "not_found", "merged", 404},
		"not an id":                 {"/segments/x", s.token, "not_found", "id", 404},
		"too many buckets":          {"?buckets=201", s.token, "invalid_argument", "1 to 200", 400},
		"no buckets":                {"?buckets=0", s.token, "invalid_argument", "1 to 200", 400},
		"no time":                   {"?start=yesterdayish", s.token, "invalid_argument", "", 400},
		"a range from end to start": {"?start=now&end=now-1h", s.token, "invalid_argument", "", 400},
		"a stream that is not":      {"?stream=nothing", s.token, "not_found", "nothing", 404},
		"a stream of others":        {"?stream=theirs", s.token, "not_found", "theirs", 404},
		"no signal":                 {"?stream=app&signal=x", s.token, "invalid_argument", "signal", 400},
		"an editor":                 {"", editor, "permission_denied", "admin", 403},
		"a segment, for an editor":  {"/segments/" + string(app[7].ID), editor, "permission_denied", "admin", 403},
	} {
		checkProblem(t, what, s.call("GET", v1+"/cluster/ownership"+c.path, c.token, nil), c.status, c.code, c.message)
	}
}

func percentNear(t *testing.T, what string, part, of int, want float64) {
	t.Helper()
	if got := 100 * float64(part) / float64(of); math.Abs(got-want) > .5 {
		t.Errorf("%s: %.2f %%, want %.1f %%", what, got, want)
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	simulate := func(body string) (v simulationView) {
		t.Helper()
		w.want(200, "POST", v1+"/cluster/ownership/simulate", root, body, &v)
		return v
	}
	const three = `"ids":100000,"members":[{"id":"A","weight":16},{"id":"B","weight":16},{"id":"C","weight":8}]`
	const four = `"ids":100000,"members":[{"id":"A","weight":16},{"id":"B","weight":16},{"id":"C","weight":8},{"id":"D","weight":16}]`

	v := simulate(`{` + three + `,"add":[{"id":"D","weight":16}]}`)
	percentNear(t, "D comes", v.MovedSegments, v.Segments, 28.6)
	if v.Segments != 100_000 || len(v.Moves) != 3 || v.Between != 0 || len(v.Shares) != 4 || v.Shares[3].Weight != 16 || v.Shares[3].Segments != v.MovedSegments {
		t.Errorf("%+v", v)
	}
	for _, m := range v.Moves {
		if m.To != "D" {
			t.Errorf("moved between others: %+v", m)
		}
	}
	v = simulate(`{` + four + `,"remove":["C"]}`)
	percentNear(t, "C goes", v.MovedSegments, v.Segments, 14.3)
	for _, m := range v.Moves {
		if m.From != "C" {
			t.Errorf("moved between others: %+v", m)
		}
		percentNear(t, "a third of C's to "+m.To, m.Segments, v.MovedSegments, 33.3)
	}
	v = simulate(`{` + three + `,"reweigh":[{"id":"C","weight":16.5}]}`)
	percentNear(t, "C grows", v.MovedSegments, v.Segments, 100*(16.5/48.5-8./40))
	if v.Between != 0 || len(v.Moves) != 2 || v.Shares[2].Weight != 16.5 {
		t.Errorf("%+v", v)
	}
	if v = simulate(`{` + three + `}`); v.MovedSegments != 0 || len(v.Moves) != 0 || v.Shares[0].Expected != .4 {
		t.Errorf("no change: %+v", v)
	}
	// The members that own segments now, by the ids that people know; and the organization's segments.
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.publish(w.stream(me.Organization.ID, "app"), 2000, aroundNoon)
	v = simulate(`{"add":[{"id":"new","weight":4}]}`)
	if v.Segments != 2000 || v.Bytes != 200_000 || v.MovedBytes != int64(100*v.MovedSegments) || len(v.Moves) != 1 || v.Moves[0].From != "alone" || v.Shares[0].ID != "alone" || math.Abs(v.Shares[1].Actual-.5) > .05 {
		t.Errorf("%+v", v)
	}
	v = simulate(`{"add":[{"id":"new","weight":4}],"remove":["alone"]}`)
	if v.MovedSegments != 2000 || v.Moves[0].From != "alone" || v.Moves[0].To != "new" {
		t.Errorf("%+v", v)
	}
	if strings.Contains(fmt.Sprint(w.actions(root)), "simulat") {
		t.Error("a simulation is in the audit log, and changes nothing")
	}
}

func TestImpossibleSimulations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	many := `{"id":"n0","weight":1}`
	for i := range maxPlaced {
		many += fmt.Sprintf(`,{"id":"n%d","weight":1}`, i+1)
	}
	const a = `"members":[{"id":"A","weight":1}]`
	for body, message := range map[string]string{
		`{"remove":["X"]}`: `remove: there is no node "X"`, `{"remove":["alone"]}`: "no node would be left", `{"reweigh":[{"id":"X","weight":1}]}`: `reweigh: there is no node "X"`,
		`{"reweigh":[{"id":"alone","weight":-1}]}`:                  `reweigh: the weight of node "alone" is -1, it must be from 0.001 to 100000 vCPU`,
		`{"add":[{"id":"X","weight":0}]}`:                           `add: the weight of node "X" is 0`,
		`{"add":[{"id":"X"}]}`:                                      `add: the weight of node "X" is 0`,
		`{"add":[{"weight":1}]}`:                                    "add: a node needs an id",
		`{"add":[{"id":"alone","weight":1}]}`:                       "needs an id that no other has",
		`{"members":[]}`:                                            "members is empty",
		`{"members":[{"id":"A","weight":-2}]}`:                      `members: the weight of node "A" is -2`,
		`{"members":[{"id":"A","weight":1},{"id":"A","weight":2}]}`: `members: node "A" is given twice`,
		`{"members":[` + many + `]}`:                                "at most 1000 nodes",
		`{` + a + `,"remove":["A"]}`:                                "no node would be left",
		`{` + a + `,"remove":["A","A"]}`:                            `remove: there is no node "A"`,
		`{` + a + `,"ids":2000001}`:                                 "ids is 2000001, it must be a number from 1 to 2000000",
		`{` + a + `,"ids":0}`:                                       "ids is 0",
		`{"weights":{}}`:                                            `unknown field "weights"`,
		``:                                                          "the body is empty",
	} {
		checkProblem(t, body, w.call("POST", v1+"/cluster/ownership/simulate", root, body), 400, "invalid_argument", message)
	}
	_, editor := w.member(root, "editor@example.com", "editor")
	checkProblem(t, "an editor", w.call("POST", v1+"/cluster/ownership/simulate", editor, `{}`), 403, "permission_denied", "admin")
}

// One simulation runs at a time; who waits too long is told.
func TestSimulationsWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	w.api.simulating <- struct{}{}
	done := make(chan answer, 1)
	go func() {
		done <- w.call("POST", v1+"/cluster/ownership/simulate", root, `{"ids":1,"members":[{"id":"A","weight":1}]}`)
	}()
	select {
	case a := <-done:
		t.Fatalf("did not wait: %d %s", a.status, a.body)
	case <-time.After(100 * time.Millisecond):
	}
	<-w.api.simulating
	if a := <-done; a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
