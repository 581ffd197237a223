package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

// DocumentKind says what a document is.
type DocumentKind string

// The kinds. Preferences exist once for a person and organization.
const (
	View        DocumentKind = "view"
	Dashboard   DocumentKind = "dashboard"
	Preferences DocumentKind = "preferences"
)

// Bounds of what is kept.
const (
	MaxDocuments = 10_000              // of a kind in an organization, deleted ones included
	MaxPrivate   = 1_000               // of them, private ones of one person
	MaxBody      = 1 << 20             // bytes of a body
	KeptVersions = 50                  // of a document
	deletedAge   = 30 * 24 * time.Hour // how long a deleted document can be restored
)

// AnyVersion as the base of a change means that whatever is there is replaced.
const AnyVersion = -1

// Author is who reads and changes documents. A private document exists for its owner only; a shared one is seen by the whole organization and changed by editors.
type Author struct {
	Org    millstream.OrgID
	User   string
	Editor bool // has at least the role editor
}

// Document is something people keep, at its newest version. Lists leave the body out.
type Document struct {
	ID         string
	Kind       DocumentKind
	Owner      string // user id; empty: the owner's account is gone
	OwnerEmail string
	Name       string
	Shared     bool
	Version    int64           // from 1
	Summary    json.RawMessage // what lists show of the body
	Body       json.RawMessage
	CreatedAt  time.Time
	UpdatedAt  time.Time
	UpdatedBy  string    // an actor, as in the audit log
	DeletedAt  time.Time // zero: not deleted
}

// Draft is what a document shall become. Summary and Body are JSON.
type Draft struct {
	Name    string
	Shared  bool
	Summary json.RawMessage
	Body    json.RawMessage
}

// DocumentVersion is one state of a document. Lists leave the body out.
type DocumentVersion struct {
	Version int64
	Name    string
	Body    json.RawMessage
	At      time.Time
	By      string // an actor
}

// MayChange says whether an author may change a document that they can see.
func (d *Document) MayChange(by Author) bool {
	if d.Shared {
		return by.Editor
	}
	return d.Owner == by.User
}

// Documents lists the documents of a kind that the author can see, by name; those that were deleted and can be restored, or the others.
func (s *Store) Documents(ctx context.Context, by Author, kind DocumentKind, deleted bool) ([]Document, error) {
	p := db.DocumentsParams{OrgID: string(by.Org), Kind: string(kind), Viewer: by.User, Deleted: deleted}
	rows, err := read(ctx, func(ctx context.Context) ([]db.DocumentsRow, error) { return s.q.Documents(ctx, p) })
	if err != nil {
		return nil, fail(err, "list documents of kind %s", kind)
	}
	out := make([]Document, len(rows))
	for i, r := range rows {
		out[i] = documentOf(r.Document, r.Email)
	}
	return out, nil
}

// Document finds a document that is not deleted. What the author cannot see is NotFound.
func (s *Store) Document(ctx context.Context, by Author, kind DocumentKind, id string) (Document, error) {
	d, err := s.anyDocument(ctx, by, kind, id)
	if err == nil && !d.DeletedAt.IsZero() {
		err = deleted(&d)
	}
	return d, err
}

// anyDocument finds a document that the author can see, deleted or not.
func (s *Store) anyDocument(ctx context.Context, by Author, kind DocumentKind, id string) (Document, error) {
	d, err := read(ctx, func(ctx context.Context) (Document, error) { return document(ctx, s.q, by, kind, id) })
	return d, fail(findable(err), "find %s %s", kind, clean(id))
}

func document(ctx context.Context, q *db.Queries, by Author, kind DocumentKind, id string) (Document, error) {
	r, err := q.Document(ctx, db.DocumentParams{ID: id, OrgID: string(by.Org), Kind: string(kind), Viewer: by.User})
	if err != nil {
		return Document{}, err
	}
	d := documentOf(r.Document, r.Email)
	d.Body = r.Body
	return d, nil
}

// CreateDocument keeps a new document. One too many is Invalid; documents that were deleted longest ago make room first.
func (s *Store) CreateDocument(ctx context.Context, by Author, kind DocumentKind, d Draft, a auth.Entry) (Document, error) {
	if d.Shared && !by.Editor {
		return Document{}, errShare
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Document{}, err
	}
	return s.changeDocument(ctx, by, kind, id.String(), a, func(q *db.Queries, a *auth.Entry) error {
		if err := makeRoom(ctx, q, by, kind, d.Shared); err != nil {
			return err
		}
		return insertDocument(ctx, q, by, kind, id.String(), d, a)
	})
}

func insertDocument(ctx context.Context, q *db.Queries, by Author, kind DocumentKind, id string, d Draft, a *auth.Entry) error {
	err := q.InsertDocument(ctx, db.InsertDocumentParams{
		ID: id, OrgID: string(by.Org), Kind: string(kind), OwnerID: orNil(by.User), Name: d.Name, Shared: d.Shared, Summary: d.Summary, At: a.At, UpdatedBy: a.Actor,
	})
	if err != nil {
		return err
	}
	return insertVersion(ctx, q, id, 1, d, a)
}

// makeRoom sees to it that one more document fits. The organization's row is locked, so that the count is exact.
func makeRoom(ctx context.Context, q *db.Queries, by Author, kind DocumentKind, shared bool) error {
	if _, err := q.LockOrganization(ctx, string(by.Org)); err != nil {
		return err
	}
	n, err := q.CountDocuments(ctx, db.CountDocumentsParams{OrgID: string(by.Org), Kind: string(kind), OwnerID: by.User})
	if err != nil {
		return err
	}
	whose, owner, most := "the organization has", "", MaxDocuments
	switch {
	case !shared && n.Own >= MaxPrivate:
		whose, owner, most = "you have", by.User, MaxPrivate
	case n.Total < MaxDocuments:
		return nil
	}
	freed, err := q.MakeRoom(ctx, db.MakeRoomParams{OrgID: string(by.Org), Kind: string(kind), OwnerID: owner})
	if err != nil || freed > 0 {
		return err
	}
	return millstream.Errorf(millstream.Invalid, "%s %d documents of the kind %s, the most that is allowed: delete some first", whose, most, kind)
}

// UpdateDocument makes a new version. A base other than the present version is Conflict. Only the owner may make a shared document private.
func (s *Store) UpdateDocument(ctx context.Context, by Author, kind DocumentKind, id string, base int64, d Draft, a auth.Entry) (Document, error) {
	return s.changeDocument(ctx, by, kind, id, a, func(q *db.Queries, a *auth.Entry) error {
		now, err := lockDocument(ctx, q, by, kind, id, base)
		if err != nil {
			return err
		}
		switch {
		case !now.DeletedAt.IsZero():
			return deleted(&now)
		case d.Shared && !by.Editor:
			return errShare
		case now.Shared && !d.Shared && now.Owner != by.User:
			return &millstream.Error{Kind: millstream.Forbidden, Msg: "only its owner can make a shared document private", Hint: "save a copy of your own"}
		}
		return appendVersion(ctx, q, now, d, a)
	})
}

// DeleteDocument deletes a document; for 30 days it can be restored.
func (s *Store) DeleteDocument(ctx context.Context, by Author, kind DocumentKind, id string, base int64, a auth.Entry) error {
	_, err := s.changeDocument(ctx, by, kind, id, a, func(q *db.Queries, a *auth.Entry) error {
		now, err := lockDocument(ctx, q, by, kind, id, base)
		if err == nil && !now.DeletedAt.IsZero() {
			err = deleted(&now)
		}
		if err != nil {
			return err
		}
		return q.SetDeleted(ctx, db.SetDeletedParams{ID: id, DeletedAt: &a.At, At: a.At, UpdatedBy: a.Actor})
	})
	return err
}

// RestoreDocument makes a former version the newest; a deleted document comes back. Version 0 is the newest one, and is for deleted documents only.
func (s *Store) RestoreDocument(ctx context.Context, by Author, kind DocumentKind, id string, base, version int64, a auth.Entry) (Document, error) {
	return s.changeDocument(ctx, by, kind, id, a, func(q *db.Queries, a *auth.Entry) error {
		now, err := lockDocument(ctx, q, by, kind, id, base)
		if err != nil {
			return err
		}
		if version == 0 {
			if now.DeletedAt.IsZero() {
				return millstream.Errorf(millstream.Invalid, "the %s is not deleted: say which version to restore", kind)
			}
			return q.SetDeleted(ctx, db.SetDeletedParams{ID: id, At: a.At, UpdatedBy: a.Actor})
		}
		v, err := q.Version(ctx, db.VersionParams{DocumentID: id, Version: version})
		if err != nil {
			return noVersion(err, version)
		}
		return appendVersion(ctx, q, now, Draft{Name: v.Name, Shared: now.Shared, Summary: v.Summary, Body: v.Body}, a)
	})
}

// DocumentVersions lists the versions that are kept, newest first, also of a deleted document.
func (s *Store) DocumentVersions(ctx context.Context, by Author, kind DocumentKind, id string) ([]DocumentVersion, error) {
	if _, err := s.anyDocument(ctx, by, kind, id); err != nil {
		return nil, err
	}
	rows, err := read(ctx, func(ctx context.Context) ([]db.VersionsRow, error) { return s.q.Versions(ctx, id) })
	if err != nil {
		return nil, fail(err, "list the versions of %s %s", kind, id)
	}
	out := make([]DocumentVersion, len(rows))
	for i, r := range rows {
		out[i] = DocumentVersion{Version: r.Version, Name: r.Name, At: r.MadeAt, By: r.MadeBy}
	}
	return out, nil
}

// DocumentVersion finds one version, also of a deleted document.
func (s *Store) DocumentVersion(ctx context.Context, by Author, kind DocumentKind, id string, version int64) (DocumentVersion, error) {
	if _, err := s.anyDocument(ctx, by, kind, id); err != nil {
		return DocumentVersion{}, err
	}
	p := db.VersionParams{DocumentID: id, Version: version}
	r, err := read(ctx, func(ctx context.Context) (db.DocumentVersion, error) { return s.q.Version(ctx, p) })
	if err != nil {
		return DocumentVersion{}, fail(noVersion(err, version), "find version %d of %s %s", version, kind, id)
	}
	return DocumentVersion{Version: r.Version, Name: r.Name, Body: r.Body, At: r.MadeAt, By: r.MadeBy}, nil
}

// PreferencesID is the id of the author's preferences; NotFound when they never set any.
func (s *Store) PreferencesID(ctx context.Context, by Author) (string, error) {
	p := db.PreferencesIDParams{OrgID: string(by.Org), OwnerID: orNil(by.User)}
	id, err := read(ctx, func(ctx context.Context) (string, error) { return s.q.PreferencesID(ctx, p) })
	return id, fail(err, "find your preferences")
}

// SetPreferences replaces the author's preferences, or makes them. Base 0 means that there must be none yet.
func (s *Store) SetPreferences(ctx context.Context, by Author, base int64, d Draft, a auth.Entry) (Document, error) {
	id, err := s.PreferencesID(ctx, by)
	switch {
	case err == nil:
		return s.UpdateDocument(ctx, by, Preferences, id, base, d, a)
	case millstream.KindOf(err) != millstream.NotFound:
		return Document{}, err
	case base > 0:
		return Document{}, millstream.Errorf(millstream.Conflict, "version %d of your preferences is not there: you have none yet", base)
	}
	made, err := s.CreateDocument(ctx, by, Preferences, d, a)
	if millstream.KindOf(err) == millstream.Conflict && base == AnyVersion { // another tab was first
		return s.SetPreferences(ctx, by, base, d, a)
	}
	return made, err
}

// changeDocument runs a change of one document and writes its audit entry in one transaction, and reads what became of it.
func (s *Store) changeDocument(ctx context.Context, by Author, kind DocumentKind, id string, a auth.Entry, change func(q *db.Queries, a *auth.Entry) error) (d Document, err error) {
	if a.At.IsZero() {
		a.At = time.Now()
	}
	a.Target = string(kind) + "/" + id
	err = s.tx(ctx, func(q *db.Queries) (err error) {
		if err := change(q, &a); err != nil {
			return err
		}
		if d, err = document(ctx, q, by, kind, id); err != nil {
			return err
		}
		a.Detail = map[string]any{"name": d.Name, "version": d.Version, "shared": d.Shared}
		return insertAudit(ctx, q, a)
	})
	return d, fail(findable(err), "change %s %s", kind, clean(id))
}

// lockDocument finds the document for a change that builds on the version base.
func lockDocument(ctx context.Context, q *db.Queries, by Author, kind DocumentKind, id string, base int64) (Document, error) {
	r, err := q.LockDocument(ctx, db.LockDocumentParams{ID: id, OrgID: string(by.Org), Kind: string(kind), Viewer: by.User})
	if err != nil {
		return Document{}, err
	}
	d := documentOf(r, "")
	switch {
	case !d.MayChange(by):
		return d, &millstream.Error{Kind: millstream.Forbidden, Msg: fmt.Sprintf("this %s is shared: changing it needs the role \"editor\"", kind), Hint: "save a copy of your own"}
	case base != AnyVersion && base != d.Version:
		return d, &millstream.Error{Kind: millstream.Conflict,
			Msg:  fmt.Sprintf("%s changed this %s at %s: it is at version %d, your change is of version %d", person(d.UpdatedBy), kind, moment(d.UpdatedAt), d.Version, base),
			Hint: "read it again and repeat your change, or save a copy"}
	}
	return d, nil
}

func appendVersion(ctx context.Context, q *db.Queries, now Document, d Draft, a *auth.Entry) error {
	next := now.Version + 1
	if err := insertVersion(ctx, q, now.ID, next, d, a); err != nil {
		return err
	}
	if err := q.TrimVersions(ctx, db.TrimVersionsParams{DocumentID: now.ID, Upto: next - KeptVersions}); err != nil {
		return err
	}
	return q.UpdateDocument(ctx, db.UpdateDocumentParams{ID: now.ID, Name: d.Name, Shared: d.Shared, Version: next, Summary: d.Summary, At: a.At, UpdatedBy: a.Actor})
}

func insertVersion(ctx context.Context, q *db.Queries, id string, version int64, d Draft, a *auth.Entry) error {
	if len(d.Body) > MaxBody {
		return millstream.Errorf(millstream.TooLarge, "the document has %d bytes, more than %d", len(d.Body), MaxBody)
	}
	return q.InsertVersion(ctx, db.InsertVersionParams{DocumentID: id, Version: version, Name: d.Name, Summary: d.Summary, Body: d.Body, MadeAt: a.At, MadeBy: a.Actor})
}

var errShare = &millstream.Error{Kind: millstream.Forbidden, Msg: "sharing needs the role \"editor\"", Hint: "keep it private, or ask an editor"}

func deleted(d *Document) error {
	return &millstream.Error{Kind: millstream.NotFound, Msg: fmt.Sprintf("%s deleted this %s at %s", person(d.UpdatedBy), d.Kind, moment(d.DeletedAt)), Hint: "it can be restored for 30 days"}
}

func noVersion(err error, version int64) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &millstream.Error{Kind: millstream.NotFound, Msg: fmt.Sprintf("version %d is not there", version), Hint: fmt.Sprintf("the last %d versions are kept", KeptVersions)}
	}
	return err
}

// person is an actor as a reader would name them.
func person(actor string) string { return strings.TrimPrefix(actor, "user:") }

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func documentOf(r db.Document, email string) Document {
	return Document{
		ID: r.ID, Kind: DocumentKind(r.Kind), Owner: deref(r.OwnerID), OwnerEmail: email, Name: r.Name, Shared: r.Shared, Version: r.Version, Summary: r.Summary,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy, DeletedAt: deref(r.DeletedAt),
	}
}
