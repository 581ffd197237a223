package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

func (h *home) author(u auth.User, role auth.Role) store.Author {
	return store.Author{Org: h.org.ID, User: u.ID, Editor: role >= auth.Editor}
}

func text(name, body string) store.Draft {
	return store.Draft{Name: name, Summary: json.RawMessage(`{}`), Body: json.RawMessage(body)}
}

func shared(d store.Draft) store.Draft { d.Shared = true; return d }

func TestDocumentVersionsAndUndo(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	by := h.author(h.owner, auth.Owner)
	e := h.entry("view.create")
	d := must(h.CreateDocument(ctx, by, store.View, text("first", `{"z":1,"a":"\u0000"}`), e))(t)
	if d.Version != 1 || d.OwnerEmail != h.owner.Email || d.UpdatedBy != e.Actor || !d.UpdatedAt.Equal(now) || string(d.Body) != `{"z":1,"a":"\u0000"}` {
		t.Fatalf("%+v", d)
	}
	e.At = now.Add(time.Minute)
	d = must(h.UpdateDocument(ctx, by, store.View, d.ID, 1, text("second", `{"n":2}`), e))(t)
	if d.Version != 2 || d.Name != "second" || !d.CreatedAt.Equal(now) || !d.UpdatedAt.Equal(e.At) {
		t.Fatalf("%+v", d)
	}
	if v := must(h.DocumentVersion(ctx, by, store.View, d.ID, 1))(t); v.Name != "first" || string(v.Body) != `{"z":1,"a":"\u0000"}` || v.By != e.Actor {
		t.Fatalf("%+v", v)
	}
	d = must(h.RestoreDocument(ctx, by, store.View, d.ID, 2, 1, e))(t)
	if d.Version != 3 || d.Name != "first" {
		t.Fatalf("after the undo: %+v", d)
	}
	_, err := h.RestoreDocument(ctx, by, store.View, d.ID, 3, 9, e)
	wantKind(t, err, millstream.NotFound)
	_, err = h.RestoreDocument(ctx, by, store.View, d.ID, 3, 0, e)
	wantKind(t, err, millstream.Invalid)

	check(t, h.DeleteDocument(ctx, by, store.View, d.ID, 3, e))
	_, err = h.Document(ctx, by, store.View, d.ID)
	wantKind(t, err, millstream.NotFound)
	if !strings.Contains(err.Error(), "owner@example.test deleted this view at "+e.At.Format(time.RFC3339)) {
		t.Fatal(err)
	}
	_, err = h.UpdateDocument(ctx, by, store.View, d.ID, 3, text("x", `{}`), e)
	wantKind(t, err, millstream.NotFound)
	wantKind(t, h.DeleteDocument(ctx, by, store.View, d.ID, store.AnyVersion, e), millstream.NotFound)
	if l := must(h.Documents(ctx, by, store.View, true))(t); len(l) != 1 || l[0].DeletedAt.IsZero() || l[0].Body != nil {
		t.Fatalf("deleted: %+v", l)
	}
	if v := must(h.DocumentVersions(ctx, by, store.View, d.ID))(t); len(v) != 3 || v[0].Version != 3 {
		t.Fatalf("versions of a deleted document: %+v", v)
	}
	if d = must(h.RestoreDocument(ctx, by, store.View, d.ID, store.AnyVersion, 0, e))(t); d.Version != 3 || !d.DeletedAt.IsZero() {
		t.Fatalf("brought back: %+v", d)
	}
	var actions []string
	for _, a := range must(h.Audit(ctx, auth.AuditFilter{Org: h.org.ID}))(t) {
		if a.Target == "view/"+d.ID {
			actions = append(actions, fmt.Sprint(a.Detail["version"]))
		}
	}
	if strings.Join(actions, " ") != "3 3 3 2 1" {
		t.Fatalf("the audit log has versions %v", actions)
	}
}

func TestDocumentKeepsFiftyVersions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	by := h.author(h.owner, auth.Owner)
	d := must(h.CreateDocument(ctx, by, store.Dashboard, text("d", `{"n":1}`), h.entry("x")))(t)
	for i := 2; i <= 60; i++ {
		d = must(h.UpdateDocument(ctx, by, store.Dashboard, d.ID, int64(i-1), text("d", fmt.Sprintf(`{"n":%d}`, i)), h.entry("x")))(t)
	}
	v := must(h.DocumentVersions(ctx, by, store.Dashboard, d.ID))(t)
	if len(v) != store.KeptVersions || v[0].Version != 60 || v[len(v)-1].Version != 11 {
		t.Fatalf("%d versions, from %d to %d", len(v), v[len(v)-1].Version, v[0].Version)
	}
	_, err := h.DocumentVersion(ctx, by, store.Dashboard, d.ID, 10)
	wantKind(t, err, millstream.NotFound)
}

// Of writers that build on one version exactly one wins; the others learn who it was.
func TestDocumentConcurrentWriters(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	by := h.author(h.owner, auth.Owner)
	d := must(h.CreateDocument(ctx, by, store.Dashboard, text("d", `{}`), h.entry("x")))(t)
	const writers = 6
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			_, err := h.UpdateDocument(ctx, by, store.Dashboard, d.ID, 1, text("d", fmt.Sprintf(`{"writer":%d}`, i)), h.entry("x"))
			errs <- err
		}()
	}
	won := 0
	for range writers {
		err := <-errs
		if err == nil {
			won++
			continue
		}
		wantKind(t, err, millstream.Conflict)
		if !strings.Contains(err.Error(), "owner@example.test changed this dashboard at "+now.Format(time.RFC3339)+": it is at version 2, your change is of version 1") {
			t.Error(err)
		}
	}
	if v := must(h.DocumentVersions(ctx, by, store.Dashboard, d.ID))(t); won != 1 || len(v) != 2 {
		t.Fatalf("%d writers won, %d versions", won, len(v))
	}
}

func TestDocumentRights(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	owner, editor, viewer := h.author(h.owner, auth.Owner), h.author(h.add("e@example.test", auth.Editor), auth.Editor), h.author(h.add("v@example.test", auth.Viewer), auth.Viewer)
	e := h.entry("x")
	private := must(h.CreateDocument(ctx, viewer, store.View, text("mine", `{}`), e))(t)
	for _, by := range []store.Author{owner, editor, {Org: millstream.OrgID(uuid.NewString()), User: viewer.User, Editor: true}} {
		_, err := h.Document(ctx, by, store.View, private.ID)
		wantKind(t, err, millstream.NotFound)
		_, err = h.DocumentVersions(ctx, by, store.View, private.ID)
		wantKind(t, err, millstream.NotFound)
		_, err = h.DocumentVersion(ctx, by, store.View, private.ID, 1)
		wantKind(t, err, millstream.NotFound)
		_, err = h.UpdateDocument(ctx, by, store.View, private.ID, store.AnyVersion, text("x", `{}`), e)
		wantKind(t, err, millstream.NotFound)
		_, err = h.RestoreDocument(ctx, by, store.View, private.ID, store.AnyVersion, 1, e)
		wantKind(t, err, millstream.NotFound)
		wantKind(t, h.DeleteDocument(ctx, by, store.View, private.ID, store.AnyVersion, e), millstream.NotFound)
		if l := must(h.Documents(ctx, by, store.View, false))(t); len(l) != 0 {
			t.Errorf("%+v lists %+v", by, l)
		}
	}
	_, err := h.Document(ctx, viewer, store.Dashboard, private.ID)
	wantKind(t, err, millstream.NotFound)
	_, err = h.CreateDocument(ctx, viewer, store.View, shared(text("s", `{}`)), e)
	wantKind(t, err, millstream.Forbidden)
	_, err = h.UpdateDocument(ctx, viewer, store.View, private.ID, 1, shared(text("s", `{}`)), e)
	wantKind(t, err, millstream.Forbidden)

	public := must(h.CreateDocument(ctx, owner, store.View, shared(text("all", `{}`)), e))(t)
	if d := must(h.Document(ctx, viewer, store.View, public.ID))(t); d.MayChange(viewer) || !d.MayChange(editor) {
		t.Error("who may change a shared document")
	}
	_, err = h.UpdateDocument(ctx, viewer, store.View, public.ID, 1, shared(text("x", `{}`)), e)
	wantKind(t, err, millstream.Forbidden)
	wantKind(t, h.DeleteDocument(ctx, viewer, store.View, public.ID, 1, e), millstream.Forbidden)
	must(h.UpdateDocument(ctx, editor, store.View, public.ID, 1, shared(text("edited", `{}`)), e))(t)
	_, err = h.UpdateDocument(ctx, editor, store.View, public.ID, 2, text("taken", `{}`), e)
	wantKind(t, err, millstream.Forbidden)
	must(h.UpdateDocument(ctx, owner, store.View, public.ID, 2, text("back", `{}`), e))(t)
	_, err = h.Document(ctx, editor, store.View, public.ID)
	wantKind(t, err, millstream.NotFound)
}

func TestPreferencesAreOnePerPersonAndOrganization(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	by := h.author(h.owner, auth.Owner)
	_, err := h.PreferencesID(ctx, by)
	wantKind(t, err, millstream.NotFound)
	_, err = h.SetPreferences(ctx, by, 3, text("", `{}`), h.entry("x"))
	wantKind(t, err, millstream.Conflict)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := h.SetPreferences(ctx, by, store.AnyVersion, text("", fmt.Sprintf(`{"n":%d}`, i)), h.entry("x")); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	id := must(h.PreferencesID(ctx, by))(t)
	if d := must(h.Document(ctx, by, store.Preferences, id))(t); d.Version != 5 {
		t.Fatalf("version %d after 5 writers", d.Version)
	}
	_, err = h.SetPreferences(ctx, by, 0, text("", `{}`), h.entry("x"))
	wantKind(t, err, millstream.Conflict)
	other := store.Author{Org: storetest.Org(t, h.Store), User: h.owner.ID}
	_, err = h.PreferencesID(ctx, other)
	wantKind(t, err, millstream.NotFound)
}

func TestDocumentLimits(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	h := newHomeAt(t, storetest.Open(t, url))
	by := h.author(h.owner, auth.Owner)
	_, err := h.CreateDocument(ctx, by, store.Dashboard, text("big", `"`+strings.Repeat("x", store.MaxBody)+`"`), h.entry("x"))
	wantKind(t, err, millstream.TooLarge)
	fill := `INSERT INTO documents (id, org_id, kind, owner_id, name, shared, version, summary, created_at, updated_at, updated_by)
		SELECT gen_random_uuid(), $1, 'view', $2, 'v' || i, $4, 1, '{}', now(), now(), 'x' FROM generate_series(1, $3) i`
	execSQL(t, url, fill, string(h.org.ID), h.owner.ID, store.MaxPrivate, false)
	_, err = h.CreateDocument(ctx, by, store.View, text("one more", `{}`), h.entry("x"))
	wantKind(t, err, millstream.Invalid)
	execSQL(t, url, `UPDATE documents SET deleted_at = now() WHERE id = (SELECT id FROM documents WHERE name = 'v7')`)
	must(h.CreateDocument(ctx, by, store.View, text("in the room of a deleted one", `{}`), h.entry("x")))(t)
	must(h.CreateDocument(ctx, by, store.View, shared(text("shared", `{}`)), h.entry("x")))(t)
	execSQL(t, url, fill, string(h.org.ID), h.owner.ID, store.MaxDocuments-store.MaxPrivate-1, true)
	_, err = h.CreateDocument(ctx, by, store.View, shared(text("one more", `{}`)), h.entry("x"))
	wantKind(t, err, millstream.Invalid)
	if n := len(must(h.Documents(ctx, by, store.View, false))(t)); n != store.MaxDocuments {
		t.Fatalf("%d documents", n)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	h := newHomeAt(t, storetest.Open(t, url))
	by := h.author(h.owner, auth.Owner)
	e := h.entry("link.create")
	state := json.RawMessage(`{"q":"\u0000 x"}`)
	id := must(h.CreateLink(ctx, by, state, e))(t)
	if len(id) < 26 || must(h.CreateLink(ctx, by, state, e))(t) != id {
		t.Fatalf("the same state is two links, one of them %s", id)
	}
	if again := must(h.CreateLink(ctx, h.author(h.add("e@example.test", auth.Editor), auth.Editor), state, e))(t); again == id {
		t.Fatal("two people have one link")
	}
	if got := must(h.Link(ctx, h.org.ID, id, now))(t); string(got) != string(state) {
		t.Fatalf("%s", got)
	}
	_, err := h.Link(ctx, storetest.Org(t, h.Store), id, now)
	wantKind(t, err, millstream.NotFound)
	_, err = h.Link(ctx, h.org.ID, "\x00", now)
	wantKind(t, err, millstream.NotFound)
	_, err = h.CreateLink(ctx, by, json.RawMessage(`"`+strings.Repeat("x", store.MaxLinkState)+`"`), e)
	wantKind(t, err, millstream.TooLarge)
	execSQL(t, url, `UPDATE links SET used_at = now() - interval '91 days'`)
	must(h.Link(ctx, h.org.ID, id, time.Now()))(t)
	if n := must(h.Sweep(ctx))(t); n != 1 {
		t.Fatalf("%d links went, want the one that nobody read", n)
	}
	must(h.Link(ctx, h.org.ID, id, time.Now()))(t)
	execSQL(t, url, `INSERT INTO links SELECT 'l' || i, $1, NULL, decode(lpad(i::text, 64, '0'), 'hex'), '{}', now() FROM generate_series(2, $2) i`, string(h.org.ID), store.MaxLinks)
	_, err = h.CreateLink(ctx, by, json.RawMessage(`{}`), e)
	wantKind(t, err, millstream.Invalid)
}

func TestSweepDocuments(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	h := newHomeAt(t, storetest.Open(t, url))
	owner, editor := h.author(h.owner, auth.Owner), h.add("e@example.test", auth.Editor)
	leaver := h.author(editor, auth.Editor)
	e := h.entry("x")
	old := must(h.CreateDocument(ctx, owner, store.View, text("old", `{}`), e))(t)
	private := must(h.CreateDocument(ctx, leaver, store.View, text("private", `{}`), e))(t)
	public := must(h.CreateDocument(ctx, leaver, store.Dashboard, shared(text("public", `{}`)), e))(t)
	check(t, h.DeleteDocument(ctx, owner, store.View, old.ID, 1, e))
	execSQL(t, url, `UPDATE documents SET deleted_at = now() - interval '29 days' WHERE deleted_at IS NOT NULL`)
	if n := must(h.Sweep(ctx))(t); n != 0 {
		t.Fatalf("%d rows went", n)
	}
	must(h.RestoreDocument(ctx, owner, store.View, old.ID, 1, 0, e))(t)
	check(t, h.DeleteDocument(ctx, owner, store.View, old.ID, 1, e))
	execSQL(t, url, `UPDATE documents SET deleted_at = now() - interval '31 days' WHERE deleted_at IS NOT NULL`)
	execSQL(t, url, `DELETE FROM memberships WHERE user_id = $1`, editor.ID)
	must(h.Sweep(ctx))(t)
	_, err := h.RestoreDocument(ctx, owner, store.View, old.ID, 1, 0, e)
	wantKind(t, err, millstream.NotFound)
	_, err = h.Document(ctx, leaver, store.View, private.ID)
	wantKind(t, err, millstream.NotFound)
	execSQL(t, url, `DELETE FROM users WHERE id = $1`, editor.ID)
	if d := must(h.Document(ctx, owner, store.Dashboard, public.ID))(t); d.Owner != "" || d.OwnerEmail != "" || !d.Shared {
		t.Fatalf("a shared document whose owner is gone: %+v", d)
	}
}
