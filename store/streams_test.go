package store_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

func TestEnsureStreamRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := make(chan millstream.StreamID, 8)
	for range cap(ids) {
		go func() {
			st, err := w.EnsureStream(ctx, millstream.StreamKey{Org: w.org, Signal: millstream.Traces, Name: "app"})
			if err != nil {
				t.Error(err)
			}
			ids <- st.ID
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Fatalf("two streams of one name: %s and %s", first, id)
		}
	}
	if logs := w.stream("app"); logs.ID == first {
		t.Fatal("the streams of two signals are one")
	}
	if got := must(w.StreamByID(ctx, first))(t); got.Key.Name != "app" || got.Key.Signal != millstream.Traces || got.Key.Org != w.org {
		t.Fatalf("stream %+v", got)
	}
}

func TestEnsureStreamRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"", ".hidden", "a/b", "a b", "nul\x00", string(make([]byte, 129))} {
		_, err := w.EnsureStream(ctx, millstream.StreamKey{Org: w.org, Signal: millstream.Logs, Name: name})
		wantKind(t, err, millstream.Invalid)
	}
	_, err := w.EnsureStream(ctx, millstream.StreamKey{Org: millstream.OrgID(uuid.NewString()), Signal: millstream.Logs, Name: "app"})
	wantKind(t, err, millstream.NotFound)
	_, err = w.Stream(ctx, millstream.StreamKey{Org: w.org, Signal: millstream.Logs, Name: "none"})
	wantKind(t, err, millstream.NotFound)
	_, err = w.StreamByID(ctx, "no uuid")
	wantKind(t, err, millstream.NotFound)
}

func TestStreamLimit(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := worldOf(t, storetest.Open(t, url))
	execSQL(t, url, `INSERT INTO streams (id, org_id, signal, name) SELECT gen_random_uuid(), $1, 1 + 2 * (i % 2), 's' || i FROM generate_series(1, $2) i`, string(w.org), store.MaxStreams-1)
	var wg sync.WaitGroup
	kinds := make(chan millstream.Kind, 4)
	for i := range cap(kinds) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, err := w.EnsureStream(ctx, millstream.StreamKey{Org: w.org, Signal: millstream.Logs, Name: fmt.Sprint("new", i)})
			if err == nil {
				kinds <- 255
				return
			}
			kinds <- millstream.KindOf(err)
		}()
	}
	wg.Wait()
	close(kinds)
	count := map[millstream.Kind]int{}
	for k := range kinds {
		count[k]++
	}
	if count[255] != 1 || count[millstream.Invalid] != 3 {
		t.Fatalf("outcomes %v: want one stream created and three refused", count)
	}
	w.stream("s2") // those that exist stay usable
	if _, err := w.EnsureStream(ctx, millstream.StreamKey{Org: w.org, Signal: millstream.Metrics, Name: millstream.MetricStream}); err != nil {
		t.Fatalf("the metric stream does not count: %v", err)
	}
}

func field(name string, ts ...millstream.Type) millstream.Field {
	f := millstream.Field{Name: name, Type: ts[0], Seen: ts[:1]}
	for _, x := range ts[1:] {
		f = f.Join(millstream.Field{Name: name, Type: x, Seen: []millstream.Type{x}})
	}
	return f
}

func TestMergeFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream("app")
	names := []string{"Level", "level", "a.b", "nul\x00in", "back\\slash", `\x00`, "bad\xffutf8", "日本", `quo"te`}
	var fields []millstream.Field
	for _, n := range names {
		fields = append(fields, field(n, millstream.Int64))
	}
	first := must(w.MergeFields(ctx, st.ID, fields))(t)
	if first.Version != 1 || !reflect.DeepEqual(first.Fields, fields) {
		t.Fatalf("schema %+v", first)
	}
	if again := must(w.MergeFields(ctx, st.ID, fields))(t); again.Version != 1 {
		t.Fatalf("nothing new made version %d", again.Version)
	}
	wide := must(w.MergeFields(ctx, st.ID, []millstream.Field{field("level", millstream.String), field("new", millstream.Bool)}))(t)
	got, _ := wide.Field("level")
	if want := field("level", millstream.Int64, millstream.String); !reflect.DeepEqual(got, want) || !got.Conflict || wide.Version != 2 {
		t.Fatalf("field %+v, want %+v", got, want)
	}
	if read := must(w.StreamByID(ctx, st.ID))(t); !reflect.DeepEqual(read.Schema, wide) {
		t.Fatalf("read back %+v, want %+v", read.Schema, wide)
	}
	check(t, w.DeleteStream(ctx, st.ID, w.entry("stream.delete")))
	_, err := w.MergeFields(ctx, st.ID, fields)
	wantKind(t, err, millstream.NotFound)
}

// Writers on several nodes merge at once. No field may get lost, no type may narrow, and every version is a step on from the one before.
func TestMergeFieldsConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream("app")
	types := []millstream.Type{millstream.Int64, millstream.Double, millstream.Int64, millstream.String}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			last := millstream.Schema{}
			for i := range 10 {
				s, err := w.MergeFields(ctx, st.ID, []millstream.Field{field(fmt.Sprint("own", g, i), millstream.Bool), field(fmt.Sprint("shared", i), types[g])})
				if err != nil {
					t.Error(err)
					return
				}
				for _, before := range last.Fields {
					if now, ok := s.Field(before.Name); !ok || millstream.JoinType(before.Type, now.Type, now.WideInt) != now.Type {
						t.Errorf("field %+v became %+v", before, now)
					}
				}
				if s.Version <= last.Version {
					t.Errorf("version %d after %d", s.Version, last.Version)
				}
				last = s
			}
		}()
	}
	wg.Wait()
	s := must(w.StreamByID(ctx, st.ID))(t).Schema
	if len(s.Fields) != 50 {
		t.Fatalf("%d fields, want 50", len(s.Fields))
	}
	for i := range 10 {
		if f, _ := s.Field(fmt.Sprint("shared", i)); f.Type != millstream.String || len(f.Seen) != 3 {
			t.Fatalf("field %+v, want a string that saw three types", f)
		}
	}
}

func TestMergeFieldsLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream("app")
	most := 3
	must(w.UpdateStream(ctx, st.ID, store.StreamPatch{MaxFields: &most}, w.entry("stream.update")))(t)
	s := must(w.MergeFields(ctx, st.ID, []millstream.Field{field("a", millstream.Bool), field("b", millstream.Bool), field("c", millstream.Bool), field("d", millstream.Bool), field(millstream.OverflowField, millstream.String)}))(t)
	if _, ok := s.Field("d"); ok || len(s.Fields) != 4 {
		t.Fatalf("fields %+v: want a, b, c and the overflow", s.Fields)
	}
	s = must(w.MergeFields(ctx, st.ID, []millstream.Field{field("a", millstream.String)}))(t)
	if a, _ := s.Field("a"); a.Type != millstream.String {
		t.Fatalf("a known field at the limit does not widen: %+v", a)
	}
	s = must(w.RegisterFields(ctx, st.ID, []millstream.Field{field("d", millstream.Bool)}))(t)
	if _, ok := s.Field("d"); !ok {
		t.Fatal("a field of rows on disk was not registered")
	}
}

func TestStreamSettingsAndSummaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, empty := w.stream("app"), w.stream("empty")
	days, mode, indexed := 7, "wal", []string{"request_id", "nul\x00"}
	got := must(w.UpdateStream(ctx, app.ID, store.StreamPatch{RetentionDays: &days, WriteMode: &mode, IndexedFields: &indexed}, w.entry("stream.update")))(t)
	if got.RetentionDays != 7 || got.WriteMode != "wal" || !reflect.DeepEqual(got.IndexedFields, indexed) || got.MaxFields != 0 {
		t.Fatalf("stream %+v", got)
	}
	bad := "nonsense"
	_, err := w.UpdateStream(ctx, app.ID, store.StreamPatch{WriteMode: &bad}, w.entry("stream.update"))
	wantKind(t, err, millstream.Invalid)
	_, err = w.UpdateStream(ctx, millstream.StreamID(uuid.NewString()), store.StreamPatch{RetentionDays: &days}, w.entry("stream.update"))
	wantKind(t, err, millstream.NotFound)

	w.publish(w.flush(0, 10, app), store.Published)
	w.publish(w.flush(10, 30, app), store.Published)
	list := must(w.Streams(ctx, w.org, 0))(t)
	if len(list) != 2 || list[0].Key.Name != "app" || list[1].Key.Name != "empty" {
		t.Fatalf("streams %+v", list)
	}
	if s := list[0]; s.Segments != 2 || s.Rows != 30 || s.Bytes != 2200 || s.MinTime != 0 || s.MaxTime != 30 {
		t.Fatalf("summary %+v", s)
	}
	if s := list[1]; s.ID != empty.ID || s.Segments != 0 || s.Rows != 0 {
		t.Fatalf("summary %+v", s)
	}
	if n := len(must(w.Streams(ctx, w.org, millstream.Traces))(t)); n != 0 {
		t.Fatalf("%d trace streams, want 0", n)
	}
	if n := len(must(w.Streams(ctx, storetest.Org(t, w.Store), 0))(t)); n != 0 {
		t.Fatalf("another organization sees %d streams", n)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	check(t, w.UpsertMetadata(ctx, w.org, nil))
	check(t, w.UpsertMetadata(ctx, w.org, []millstream.Metadata{{Name: "b", Type: "counter", Help: "old"}, {Name: "b", Type: "gauge", Unit: "s", Help: "nul\x00"}, {Name: "a\xff", Type: "gauge"}}))
	want := []millstream.Metadata{{Name: "a\xff", Type: "gauge"}, {Name: "b", Type: "gauge", Unit: "s", Help: "nul\x00"}}
	some := must(w.MetadataOf(ctx, w.org, []string{"a\xff", "c"}))(t)
	if !reflect.DeepEqual(some, map[string]millstream.Metadata{"a\xff": want[0]}) {
		t.Errorf("of some: %v", some)
	}
	if got := must(w.Metadata(ctx, w.org))(t); !reflect.DeepEqual(got, want) {
		t.Fatalf("metadata %+v, want %+v", got, want)
	}
}
