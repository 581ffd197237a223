package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

const maxAuditPage = 1000

// Record writes an audit entry of its own: of a refused call, or of a change outside the database.
func (s *Store) Record(ctx context.Context, a auth.Entry) error {
	return fail(insertAudit(ctx, s.q, a), "write the audit log")
}

// Audit lists entries, newest first; at most 1,000.
func (s *Store) Audit(ctx context.Context, f auth.AuditFilter) ([]auth.Entry, error) {
	p := db.AuditParams{OrgID: orNil(string(f.Org)), Actor: clean(f.Actor), Action: clean(f.Action), Before: timeOrNil(f.Before), Most: maxAuditPage}
	if f.Limit > 0 && f.Limit < maxAuditPage {
		p.Most = int32(f.Limit)
	}
	rows, err := read(ctx, func(ctx context.Context) ([]db.Audit, error) { return s.q.Audit(ctx, p) })
	if err != nil {
		return nil, fail(err, "read the audit log")
	}
	out := make([]auth.Entry, len(rows))
	for i, r := range rows {
		out[i] = auth.Entry{ID: strconv.FormatInt(r.ID, 10), At: r.At, Org: millstream.OrgID(deref(r.OrgID)), Actor: r.Actor, Action: r.Action, Target: r.Target, Outcome: r.Outcome, Address: r.Address, Request: r.Request}
		if err := json.Unmarshal(r.Detail, &out[i].Detail); err != nil {
			return nil, fmt.Errorf("read audit entry %d: %w", r.ID, err)
		}
	}
	return out, nil
}

// audited runs a change and writes its audit entry in one transaction; listeners are told that rights may have changed.
func (s *Store) audited(ctx context.Context, a auth.Entry, change func(q *db.Queries) error) error {
	return s.tx(ctx, func(q *db.Queries) error {
		if err := change(q); err != nil {
			return err
		}
		if err := insertAudit(ctx, q, a); err != nil {
			return err
		}
		return q.Notify(ctx, db.NotifyParams{Channel: ChannelAuth, Payload: string(a.Org)})
	})
}

func insertAudit(ctx context.Context, q *db.Queries, a auth.Entry) error {
	detail := []byte("{}")
	if len(a.Detail) > 0 {
		var err error
		if detail, err = json.Marshal(a.Detail); err != nil {
			return fmt.Errorf("write the detail of audit entry %s: %w", a.Action, err)
		}
	}
	outcome := a.Outcome
	if outcome == "" {
		outcome = auth.OK
	}
	return q.InsertAudit(ctx, db.InsertAuditParams{
		At: timeOrNil(a.At), OrgID: orNil(string(a.Org)), Actor: clean(a.Actor), Action: clean(a.Action), Target: clean(a.Target), Outcome: clean(outcome),
		Address: clean(a.Address), Request: clean(a.Request), Detail: detail,
	})
}

// clean makes text that only people read storable: what PostgreSQL cannot hold is replaced.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// deref is the value of a pointer, or zero for nil.
func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
