package api

import (
	"slices"
	"testing"
	"time"

	"github.com/millstream/millstream"
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
