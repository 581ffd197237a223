package api

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/store"
)

func TestClusterNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := millstream.Member{ID: "node-1", Addr: "127.0.0.1:5082", Roles: []string{"standalone"}, MilliCPU: 1500, Version: "v1"}
	if _, err := w.store.StartNode(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var v nodesView
	w.want(200, "GET", "/api/v1/cluster/nodes", w.root(), nil, &v)
	if len(v.Nodes) != 1 || v.Nodes[0].ID != "node-1" || v.Nodes[0].State != "up" || v.Nodes[0].Weight != 1.5 || v.Nodes[0].HeartbeatAgeSeconds > 10 {
		t.Errorf("%+v", v)
	}
	w.advance(time.Hour) // ages are the database's: this node's clock says nothing of others
	w.want(200, "GET", "/api/v1/cluster/nodes", w.root(), nil, &v)
	if v.Nodes[0].State != "up" {
		t.Errorf("%+v", v)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	s := w.stream(me.Organization.ID, "app")
	_, err := w.store.MergeFields(t.Context(), s.ID, []millstream.Field{
		{Name: "level", Type: millstream.String, Seen: []millstream.Type{millstream.String}},
		{Name: "status", Type: millstream.String, Conflict: true, Seen: []millstream.Type{millstream.Int64, millstream.String}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	_, editor := w.member(root, "editor@example.com", "editor")
	var v streamView
	w.want(200, "GET", "/api/v1/streams/logs/app", viewer, nil, &v)
	if len(v.Fields) != 2 || !v.Fields[1].Conflict || !slices.Equal(v.Fields[1].Seen, []string{"int64", "string"}) || v.Fields[1].Type != "string" || v.SchemaVersion == 0 {
		t.Errorf("%+v", v)
	}
	var list streamsView
	w.want(200, "GET", "/api/v1/streams?signal=logs", viewer, nil, &list)
	if len(list.Streams) != 1 || list.Streams[0].FieldCount != 2 {
		t.Errorf("%+v", list)
	}
	w.want(200, "GET", "/api/v1/streams?signal=traces", viewer, nil, &list)
	if len(list.Streams) != 0 {
		t.Errorf("%+v", list)
	}
	w.want(400, "GET", "/api/v1/streams?signal=x", viewer, nil, nil)
	w.want(404, "GET", "/api/v1/streams/traces/app", viewer, nil, nil)
	const path = "/api/v1/streams/logs/app"
	w.want(403, "PATCH", path, viewer, streamPatchBody{RetentionDays: ptr(1)}, nil)
	w.want(200, "PATCH", path, editor, streamPatchBody{RetentionDays: ptr(5), WriteMode: ptr("wal"), MaxFields: ptr(100), IndexedFields: ptr([]string{"request_id"})}, &v)
	if v.RetentionDays != 5 || v.WriteMode != "wal" || v.MaxFields != 100 || !slices.Equal(v.IndexedFields, []string{"request_id"}) {
		t.Errorf("%+v", v)
	}
	for name, p := range map[string]streamPatchBody{
		"retention": {RetentionDays: ptr(-1)}, "mode": {WriteMode: ptr("raft")}, "fields": {MaxFields: ptr(1 << 20)}, "empty name": {IndexedFields: ptr([]string{""})}, "many": {IndexedFields: ptr(make([]string, 300))},
	} {
		checkProblem(t, name, w.call("PATCH", path, editor, p), 400, "invalid_argument", "")
	}
	w.want(200, "GET", path+"/segments", viewer, nil, nil)
	w.want(403, "DELETE", path, editor, nil, nil)
	w.want(204, "DELETE", path, root, nil, nil)
	w.want(404, "GET", path, root, nil, nil)
}

// liveStreams is a catalog whose unflushed rows are known but for those of a node.
type liveStreams struct {
	ingest.Live
	pending ingest.Pending
	reasons []string
}

func (l liveStreams) Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) ([]store.StreamSummary, []string, error) {
	all, err := l.Store.Streams(ctx, org, sig)
	for i := range all {
		all[i] = l.pending.Add(all[i])
	}
	return all, l.reasons, err
}

func (l liveStreams) Unflushed(context.Context, millstream.StreamID) (ingest.Pending, []string, error) {
	return l.pending, l.reasons, nil
}

// A node that does not tell what it has not flushed makes the numbers partial.
func TestStreamsOfANodeThatIsAway(t *testing.T) {
	t.Parallel()
	live := liveStreams{pending: ingest.Pending{Rows: 7, Fields: []millstream.Field{{Name: "level", Type: millstream.String}}}, reasons: []string{"node b did not tell"}}
	w := newWorld(t, func(a *API) {
		live.Live = a.Streams.(ingest.Live)
		a.Streams = live
	})
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.stream(me.Organization.ID, "app")
	var list streamsView
	w.want(200, "GET", "/api/v1/streams", root, nil, &list)
	if !list.Partial || !slices.Equal(list.Reasons, live.reasons) || len(list.Streams) != 1 || list.Streams[0].UnflushedRows != 7 || list.Streams[0].Partial {
		t.Errorf("%+v", list)
	}
	var one streamView
	w.want(200, "GET", "/api/v1/streams/logs/app", root, nil, &one)
	if !one.Partial || !slices.Equal(one.Reasons, live.reasons) || one.Rows != 7 || len(one.Fields) != 1 || one.FieldCount != 1 {
		t.Errorf("%+v", one)
	}
}

// gapTail tells what is missing, with records and without.
type gapTail struct{ explorer }

func (gapTail) Tail(_ context.Context, _ query.Selection, opened func(), emit func(query.TailEvent) error) error {
	opened()
	return emit(query.TailEvent{Dropped: 3, Gaps: []string{"node b is away", "node c is away"}})
}

func TestTailTellsGaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *API) { a.Explore = gapTail{} })
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.http.URL+"/api/v1/query/tail?stream=app", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.root())
	resp, err := w.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	want := "event: dropped\ndata: {\"dropped\":3}\n\nevent: gap\ndata: {\"reason\":\"node b is away\"}\n\nevent: gap\ndata: {\"reason\":\"node c is away\"}\n\n"
	if err != nil || !strings.HasSuffix(string(body), want) {
		t.Errorf("%q, %v", body, err)
	}
}
