package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

// documents keeps what people keep. *store.Store fits.
type documents interface {
	documentReader
	documentEditor
	preferenceKeeper
	linkKeeper
}

type documentReader interface {
	Documents(ctx context.Context, by store.Author, kind store.DocumentKind, deleted bool) ([]store.Document, error)
	Document(ctx context.Context, by store.Author, kind store.DocumentKind, id string) (store.Document, error)
	DocumentVersions(ctx context.Context, by store.Author, kind store.DocumentKind, id string) ([]store.DocumentVersion, error)
	DocumentVersion(ctx context.Context, by store.Author, kind store.DocumentKind, id string, version int64) (store.DocumentVersion, error)
}

type documentEditor interface {
	CreateDocument(ctx context.Context, by store.Author, kind store.DocumentKind, d store.Draft, a auth.Entry) (store.Document, error)
	UpdateDocument(ctx context.Context, by store.Author, kind store.DocumentKind, id string, base int64, d store.Draft, a auth.Entry) (store.Document, error)
	DeleteDocument(ctx context.Context, by store.Author, kind store.DocumentKind, id string, base int64, a auth.Entry) error
	RestoreDocument(ctx context.Context, by store.Author, kind store.DocumentKind, id string, base, version int64, a auth.Entry) (store.Document, error)
}

// documentHead is what every kind of document has.
type documentHead struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Owner     string `json:"owner,omitempty" doc:"e-mail; absent when the account is gone"`
	Mine      bool   `json:"mine" doc:"you are the owner"`
	Shared    bool   `json:"shared" doc:"seen by the whole organization and changed by its editors; else it exists for its owner only"`
	Editable  bool   `json:"editable" doc:"you may change and delete it"`
	Version   int64  `json:"version" doc:"also in the header ETag"`
	CreatedAt stamp  `json:"created_at"`
	UpdatedAt stamp  `json:"updated_at"`
	UpdatedBy string `json:"updated_by" doc:"an actor, as in the audit log"`
	DeletedAt stamp  `json:"deleted_at,omitzero"`
}

// documentView is a document of any kind: with its body alone, with a summary of it in lists.
type documentView struct {
	documentHead
	Summary json.RawMessage `json:"summary,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

type versionView struct {
	Version int64           `json:"version"`
	Name    string          `json:"name,omitempty"`
	At      stamp           `json:"at"`
	By      string          `json:"by" doc:"an actor, as in the audit log"`
	Body    json.RawMessage `json:"body,omitempty" doc:"not in lists"`
}

type versionsView struct {
	Versions []versionView `json:"versions" doc:"newest first; the last 50 are kept"`
}

type restoreBody struct {
	Version int64 `json:"version,omitempty" doc:"the version to make the newest; absent: bring a deleted one back as it was"`
}

// draft is what a body asks to keep, and the version it was made from, if it says so.
type draft struct {
	store.Draft
	version *int64
}

// noun is a kind of document with routes of its own.
type noun struct {
	kind  store.DocumentKind
	path  string                               // of all of them
	list  string                               // the key of lists
	least auth.Role                            // who may make and change them
	read  func(r *http.Request) (draft, error) // decodes and checks a body
	body  any                                  // for the OpenAPI document, as are:
	one   any
	many  any
}

// routes are those that every kind has.
func (a *API) documentRoutes(n noun) []route {
	one := n.path + "/{id}"
	reads, writes := need(auth.Query, auth.Viewer), need(auth.Administer, n.least)
	name := string(n.kind)
	return []route{
		{method: "GET", path: n.path, policy: reads, handle: a.listDocuments(n), doc: operation{summary: "All that you can see, by name, without bodies", reply: n.many,
			query: []param{{"deleted", "boolean", "those that were deleted and can be restored instead"}}}},
		{method: "POST", path: n.path, policy: writes.audited(name + ".create"), handle: a.createDocument(n), doc: operation{summary: "Keep a new " + name, body: n.body, reply: n.one, status: http.StatusCreated}},
		{method: "GET", path: one, policy: reads, handle: a.getDocument(n), doc: operation{summary: "A " + name, reply: n.one}},
		{method: "PUT", path: one, policy: writes.audited(name + ".update"), handle: a.updateDocument(n),
			doc: operation{summary: "Replace a " + name + ": a new version. If-Match, or version in the body, says which one it replaces", body: n.body, reply: n.one}},
		{method: "DELETE", path: one, policy: writes.audited(name + ".delete"), handle: a.deleteDocument(n), doc: operation{summary: "Delete a " + name + "; it can be restored for 30 days"}},
		{method: "GET", path: one + "/versions", policy: reads, handle: a.listVersions(n), doc: operation{summary: "Versions, also of a deleted " + name, reply: versionsView{}}},
		{method: "GET", path: one + "/versions/{n}", policy: reads, handle: a.getVersion(n), doc: operation{summary: "A version with its body", reply: versionView{}}},
		{method: "POST", path: one + "/restore", policy: writes.audited(name + ".restore"), handle: a.restoreDocument(n),
			doc: operation{summary: "Undo: make a former version the newest, or bring a deleted " + name + " back", body: restoreBody{}, reply: n.one}},
	}
}

func authorOf(r *http.Request) store.Author {
	p := who(r)
	return store.Author{Org: p.Org, User: p.User, Editor: p.Role >= auth.Editor}
}

func (a *API) listDocuments(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		deleted, err := queryBool(r, "deleted")
		if err != nil {
			return err
		}
		all, err := a.Documents.Documents(r.Context(), authorOf(r), n.kind, deleted)
		if err != nil {
			return err
		}
		views := make([]documentView, len(all))
		for i := range all {
			views[i] = documentView{documentHead: headOf(r, &all[i]), Summary: all[i].Summary}
		}
		return reply(w, http.StatusOK, map[string][]documentView{n.list: views})
	}
}

func (a *API) createDocument(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		in, err := n.read(r)
		if err != nil {
			return err
		}
		d, err := a.Documents.CreateDocument(r.Context(), authorOf(r), n.kind, in.Draft, entryOf(r, ""))
		if err != nil {
			return err
		}
		w.Header().Set("Location", strings.TrimSuffix(a.BasePath, "/")+n.path+"/"+d.ID)
		return replyDocument(w, r, http.StatusCreated, &d)
	}
}

func (a *API) getDocument(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		d, err := a.document(r, n.kind)
		if err != nil {
			return err
		}
		return replyDocument(w, r, http.StatusOK, &d)
	}
}

// document is the one that the path names.
func (a *API) document(r *http.Request, kind store.DocumentKind) (store.Document, error) {
	id, err := pathID(r, "id")
	if err != nil {
		return store.Document{}, err
	}
	return a.Documents.Document(r.Context(), authorOf(r), kind, id)
}

func (a *API) updateDocument(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r, "id")
		if err != nil {
			return err
		}
		in, err := n.read(r)
		if err != nil {
			return err
		}
		lock, err := lockOf(r, in.version)
		if err != nil {
			return err
		}
		if !lock.given {
			return &millstream.Error{Kind: millstream.Invalid, Msg: "the change does not say which version it replaces",
				Hint: `send the ETag of what you read as If-Match, or "version" in the body; If-Match: * replaces whatever there is`}
		}
		d, err := a.Documents.UpdateDocument(r.Context(), authorOf(r), n.kind, id, lock.base, in.Draft, entryOf(r, ""))
		if err != nil {
			return lock.failed(err)
		}
		return replyDocument(w, r, http.StatusOK, &d)
	}
}

func (a *API) deleteDocument(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r, "id")
		if err != nil {
			return err
		}
		lock, err := lockOf(r, nil)
		if err != nil {
			return err
		}
		if err := a.Documents.DeleteDocument(r.Context(), authorOf(r), n.kind, id, lock.base, entryOf(r, "")); err != nil {
			return lock.failed(err)
		}
		return empty(w)
	}
}

func (a *API) listVersions(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r, "id")
		if err != nil {
			return err
		}
		return a.replyVersions(w, r, n.kind, id)
	}
}

func (a *API) replyVersions(w http.ResponseWriter, r *http.Request, kind store.DocumentKind, id string) error {
	all, err := a.Documents.DocumentVersions(r.Context(), authorOf(r), kind, id)
	if err != nil {
		return err
	}
	view := versionsView{Versions: make([]versionView, len(all))}
	for i, v := range all {
		view.Versions[i] = versionOf(v)
	}
	return reply(w, http.StatusOK, view)
}

func (a *API) getVersion(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r, "id")
		if err != nil {
			return err
		}
		text, err := pathValue(r, "n")
		if err != nil {
			return err
		}
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || number < 1 {
			return millstream.Errorf(millstream.NotFound, "version %q is not there: versions are numbered from 1", text)
		}
		v, err := a.Documents.DocumentVersion(r.Context(), authorOf(r), n.kind, id, number)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, versionOf(v))
	}
}

func (a *API) restoreDocument(n noun) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := pathID(r, "id")
		if err != nil {
			return err
		}
		d, err := a.restore(r, n.kind, id)
		if err != nil {
			return err
		}
		return replyDocument(w, r, http.StatusOK, &d)
	}
}

func (a *API) restore(r *http.Request, kind store.DocumentKind, id string) (store.Document, error) {
	var in restoreBody
	if err := read(r, &in); err != nil {
		return store.Document{}, err
	}
	if in.Version < 0 {
		return store.Document{}, millstream.Errorf(millstream.Invalid, "version is %d, versions are numbered from 1", in.Version)
	}
	lock, err := lockOf(r, nil)
	if err != nil {
		return store.Document{}, err
	}
	d, err := a.Documents.RestoreDocument(r.Context(), authorOf(r), kind, id, lock.base, in.Version, entryOf(r, ""))
	return d, lock.failed(err)
}

// lock is the version that a change replaces.
type lock struct {
	base   int64
	given  bool
	header bool // by If-Match
}

// lockOf reads If-Match, or takes the version of the body.
func lockOf(r *http.Request, version *int64) (lock, error) {
	text := strings.TrimSpace(r.Header.Get("If-Match"))
	switch {
	case text == "*":
		return lock{store.AnyVersion, true, true}, nil
	case text != "":
		n, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
		if err != nil || n < 0 || text != etag(n) {
			return lock{}, &millstream.Error{Kind: millstream.Invalid, Msg: fmt.Sprintf("If-Match is %q", text), Hint: `send one ETag as it was read, such as "3", or *`}
		}
		return lock{n, true, true}, nil
	case version != nil:
		if *version < 1 {
			return lock{}, millstream.Errorf(millstream.Invalid, "version is %d, versions are numbered from 1", *version)
		}
		return lock{*version, true, false}, nil
	}
	return lock{base: store.AnyVersion}, nil
}

// failed gives a conflict the status that HTTP has for it: 412 when the version came by If-Match, else 409.
func (l lock) failed(err error) error {
	if l.header && millstream.KindOf(err) == millstream.Conflict {
		return &statusError{http.StatusPreconditionFailed, err}
	}
	return err
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

func replyDocument(w http.ResponseWriter, r *http.Request, code int, d *store.Document) error {
	w.Header().Set("ETag", etag(d.Version))
	return reply(w, code, documentView{documentHead: headOf(r, d), Body: d.Body})
}

func headOf(r *http.Request, d *store.Document) documentHead {
	by := authorOf(r)
	return documentHead{
		ID: d.ID, Name: d.Name, Owner: d.OwnerEmail, Mine: d.Owner == by.User, Shared: d.Shared, Editable: d.MayChange(by), Version: d.Version,
		CreatedAt: stamp{d.CreatedAt}, UpdatedAt: stamp{d.UpdatedAt}, UpdatedBy: d.UpdatedBy, DeletedAt: stamp{d.DeletedAt},
	}
}

func versionOf(v store.DocumentVersion) versionView {
	return versionView{Version: v.Version, Name: v.Name, At: stamp{v.At}, By: v.By, Body: v.Body}
}

const maxName = 200

// checkName refuses a name that no list could show.
func checkName(field, name string) error {
	switch n := utf8.RuneCountInString(name); {
	case strings.TrimSpace(name) == "":
		return millstream.Errorf(millstream.Invalid, "%s is empty", field)
	case n > maxName:
		return millstream.Errorf(millstream.Invalid, "%s has %d characters, more than %d", field, n, maxName)
	case strings.ContainsFunc(name, unicode.IsControl):
		return millstream.Errorf(millstream.Invalid, "%s contains a control character", field)
	}
	return nil
}

func queryBool(r *http.Request, name string) (bool, error) {
	switch text := r.URL.Query().Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, millstream.Errorf(millstream.Invalid, "%s is %q, it must be true or false", name, text)
	}
}
