package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/rpc"
)

// members is a cluster as its database lists it.
type members []millstream.Member

func (m *members) Nodes(context.Context, time.Duration) ([]millstream.Member, error) {
	if *m == nil {
		return nil, millstream.Errorf(millstream.Unavailable, "the database does not answer")
	}
	return append([]millstream.Member(nil), *m...), nil
}

func node(id string, age time.Duration, roles ...string) millstream.Member {
	return millstream.Member{ID: millstream.NodeID(id), Roles: roles, Addr: id + ":5082", MilliCPU: 1500, Version: "1", Incarnation: 7, StartedAt: time.Unix(1_800_000_000, 0), HeartbeatAge: age}
}

// newFleet is a split cluster whose members a test sets.
func newFleet(t *testing.T, m *members) *split {
	own := rpc.Status{Incarnation: 7, CPU: .5}
	return newSplit(t, "", func(a *API, _ string) { a.Nodes, a.Status = m, func() rpc.Status { return own } }, "q-1", "i-1", "i-2")
}

func (s *split) nodes() map[string]nodeView {
	s.t.Helper()
	var v nodesView
	a := s.via("GET", "/api/v1/cluster/nodes", nil)
	if a.into(s.t, &v); a.status != 200 {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	out := map[string]nodeView{}
	for _, n := range v.Nodes {
		out[n.ID] = n
	}
	return out
}

func (p *fakePeer) say(s rpc.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = s
}

// A node with another token sends heartbeats like any other, and takes nobody's calls.
func TestARefusingNode(t *testing.T) {
	t.Parallel()
	s := newFleet(t, &members{node("i-1", time.Second, "intake"), node("q-1", 0, "querier")})
	s.peers["q-1"].set(rpc.ErrRefused, 0)
	if got := s.nodes(); got["q-1"].State != "refused" || got["q-1"].Load != nil || got["i-1"].State != "up" {
		t.Errorf("%+v", got)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	m := &members{node("i-1", time.Second, "intake"), node("i-2", 16*time.Second, "intake"), node("q-1", 0, "querier"), node("router-1", 2*time.Second, "router")}
	s := newFleet(t, m)
	s.peers["i-1"].say(rpc.Status{Incarnation: 7, CPU: 1, Memory: 10, MemoryTotal: 100, Buffered: 5, Rows: 1000, Stored: 400, Traffic: []rpc.Traffic{{Node: "q-1", Sent: 10}}})
	s.peers["q-1"].say(rpc.Status{Incarnation: 7, Queries: 3, Fetched: 50})
	s.peers["i-2"].set(errLost, 0)
	got := s.nodes()
	if n := got["i-1"]; n.State != "up" || n.Weight != 1.5 || n.HeartbeatAgeSeconds != 1 || n.Address != "i-1:5082" || n.Load == nil || n.Load.CPU != 1 || n.Load.MemoryTotalBytes != 100 || n.Load.UnflushedBytes != 5 || n.Load.Rates != nil || n.Self {
		t.Errorf("%+v %+v", n, n.Load)
	}
	if n := got["i-2"]; n.State != "silent" || n.Load != nil {
		t.Errorf("%+v", n)
	}
	if n := got["router-1"]; !n.Self || n.Load == nil || n.Load.CPU != .5 {
		t.Errorf("%+v", n)
	}

	// Rates are between two readings; a node that started anew has none.
	s.advance(5 * time.Second)
	s.peers["i-1"].say(rpc.Status{Incarnation: 7, Rows: 2000, Stored: 500, Traffic: []rpc.Traffic{{Node: "i-2", Writes: 5, Sent: 5}, {Node: "q-1", Sent: 60, Received: 50}}})
	s.peers["q-1"].say(rpc.Status{Incarnation: 8, Fetched: 10})
	got = s.nodes()
	if r := got["i-1"].Load.Rates; r == nil || r.RowsPerSecond != 200 || r.StoredBytesPerSecond != 20 || got["q-1"].Load.Rates != nil {
		t.Errorf("%+v", r)
	}
	if tr := got["i-1"].Traffic; len(tr) != 2 || tr[0] != (trafficView{"i-2", 1, 0, 1}) || tr[1] != (trafficView{"q-1", 0, 0, 20}) {
		t.Errorf("%+v", tr)
	}

	// A node that drains has no row any more; it is listed for as long as it works.
	*m = members{node("i-1", 0, "intake"), node("router-1", 0, "router")}
	s.peers["q-1"].say(rpc.Status{Incarnation: 7, Draining: true})
	s.advance(time.Second)
	if got = s.nodes(); len(got) != 3 || got["q-1"].State != "draining" || got["q-1"].Address != "q-1:5082" {
		t.Errorf("%+v", got)
	}
	s.peers["q-1"].set(errLost, 0)
	s.advance(5 * time.Second)
	if got = s.nodes(); len(got) != 2 {
		t.Errorf("a node that has stopped is listed: %+v", got)
	}
	(*m)[0].Draining = true
	s.advance(time.Second)
	if got = s.nodes(); got["i-1"].State != "draining" {
		t.Errorf("%+v", got)
	}
	s.routing.Status = func() rpc.Status { return rpc.Status{Incarnation: 6, Fenced: true} }
	s.advance(5 * time.Second)
	if got = s.nodes(); got["router-1"].State != "fenced" {
		t.Errorf("%+v", got["router-1"])
	}
	*m = nil
	s.advance(5 * time.Second)
	checkProblem(t, "without the database", s.via("GET", "/api/v1/cluster/nodes", nil), 503, "unavailable", "does not answer")
	_, editor := s.member(s.token, "editor@example.com", "editor")
	for _, path := range []string{"/cluster/nodes", "/cluster/events"} {
		checkProblem(t, path, s.call("GET", v1+path, editor, nil), 403, "permission_denied", "admin")
	}
}

// events opens a stream of events; next gives the name and data of one at a time, "end" after the last.
func (s *split) events(path string) (next func() (string, string)) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", s.router.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := s.router.Client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || ct != "text/event-stream" {
		s.t.Fatalf("%d %s", resp.StatusCode, ct)
	}
	lines := bufio.NewReader(resp.Body)
	return func() (name, data string) {
		s.t.Helper()
		for {
			line, err := lines.ReadString('\n')
			switch {
			case err == io.EOF:
				return "end", ""
			case err != nil:
				s.t.Fatal(err)
			case line == "\n" && name != "":
				return name, data
			}
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				name = strings.TrimSpace(v)
			} else if v, ok := strings.CutPrefix(line, "data: "); ok {
				data = v
			}
		}
	}
}

func TestNodesAsEvents(t *testing.T) {
	t.Parallel()
	m := &members{node("router-1", 0, "router")}
	s := newFleet(t, m)
	next := s.events("/api/v1/cluster/events")
	read := func() (v nodesView) {
		t.Helper()
		name, data := next()
		if err := json.Unmarshal([]byte(data), &v); err != nil || name != "nodes" {
			t.Fatalf("%s %s: %v", name, data, err)
		}
		return v
	}
	if v := read(); len(v.Nodes) != 1 {
		t.Errorf("%+v", v)
	}
	// A change is told before the nodes would be sent anyway. A machine that pauses is asked again.
	nodes := members{node("i-1", 0, "intake"), node("router-1", 0, "router")}
	for tries, quick := 0, false; !quick; tries++ {
		began, want := time.Now(), nodes[tries%2:]
		s.routing.watched.set(m, want)
		s.advance(time.Second)
		for v := read(); len(v.Nodes) != len(want); v = read() { // sent anyway, just before
			if time.Since(began) > time.Minute {
				t.Fatalf("no change after %v: %+v", time.Since(began), v)
			}
		}
		took := time.Since(began)
		if quick = took <= watchSend-watchEvery; tries == 10 {
			t.Fatalf("a change is told after %v", took)
		}
	}
	s.routing.watched.set(m, nil)
	s.advance(time.Second)
	name, data := next()
	for began := time.Now(); name == "nodes" && time.Since(began) < time.Minute; { // sent anyway, just before
		name, data = next()
	}
	if name != "trouble" || !strings.Contains(data, `"code":"unavailable","message":"the database does not answer"`) {
		t.Errorf("%s %s", name, data)
	}
	s.routing.EndStreams()
	if name, _ := next(); name != "end" {
		t.Errorf("%s after the end", name)
	}
}

// set changes the members while nobody reads them.
func (l *watched) set(m *members, to members) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*m = to
}

// endlessTail has records to tell until it is ended.
type endlessTail struct{ explorer }

func (endlessTail) Tail(ctx context.Context, _ query.Selection, opened func(), _ func(query.TailEvent) error) error {
	opened()
	<-ctx.Done()
	return ctx.Err()
}

// A live tail keeps no node from stopping, neither the one that the reader is at nor the querier behind it.
func TestTailsEndWithTheNode(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *split){
		"router":  func(s *split) { s.routing.EndStreams() },
		"querier": func(s *split) { s.queriers["q-1"].EndStreams() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSplit(t, "", func(a *API, _ string) { a.Explore = endlessTail{} }, "q-1")
			req, _ := http.NewRequestWithContext(t.Context(), "GET", s.router.URL+"/api/v1/query/tail?stream=app", nil)
			req.Header.Set("Authorization", "Bearer "+s.token)
			resp, err := s.router.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body := bufio.NewReader(resp.Body)
			if line, err := body.ReadString('\n'); err != nil || line != ": open\n" {
				t.Fatalf("%q %v", line, err)
			}
			end(s)
			if _, err := io.ReadAll(body); err != nil {
				t.Errorf("the tail was cut: %v", err)
			}
		})
	}
}
