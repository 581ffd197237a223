package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/cipher"
)

// The first organization.
const (
	firstSlug = "default"
	firstName = "Default"
)

// perRefusals is how many refused calls of one actor reach the audit log a minute.
const perRefusals = 60

// Start checks that the signing keys can be read, making the first, and prepares the first run. With an e-mail address and a password the first owner is created when there is no user yet. Without, a one-time code for
// /setup is returned for the operator to see; it is empty when there is a user already. It stays the same until then, on every node: whichever
// of several printed it, it is good on all.
func (s *Service) Start(ctx context.Context, email, password string) (code string, err error) {
	if _, _, err := s.keys.signer(ctx); errors.Is(err, cipher.ErrUnknownKey) {
		return "", fmt.Errorf("the signing keys cannot be read: %w; or delete the rows of the table jwt_keys, which signs everybody out", err)
	} else if err != nil {
		return "", fmt.Errorf("read the signing keys: %w", err)
	}
	if email == "" {
		seed, err := s.store.SetupSeed(ctx, hashOf(random(32)))
		if err != nil || seed == nil {
			return "", err
		}
		return s.setupCode(seed), nil
	}
	err = s.setup(ctx, nil, email, password, "", Entry{At: s.now(), Actor: "system", Action: "setup", Outcome: "ok"})
	if millstream.KindOf(err) == millstream.Conflict {
		return "", nil // the configuration creates the first owner once; later it changes nobody
	}
	return "", err
}

// setupCode makes the one-time code of what the database keeps for it. That is worth nothing without the node's key, so that the code cannot be read from the database.
func (s *Service) setupCode(seed []byte) string {
	return b32.EncodeToString(s.cipher.MAC("setup code", seed)[:15])
}

// Setup creates the first owner for whoever has the one-time code, and signs them in.
func (s *Service) Setup(ctx context.Context, code, email, password, slug string, from Origin, a Entry) (Grant, error) {
	refund, err := s.throttles.enter("", from.key(), s.own())
	if err != nil {
		return Grant{}, err
	}
	err = s.setup(ctx, func(seed []byte) bool {
		return seed != nil && subtle.ConstantTimeCompare([]byte(s.setupCode(seed)), []byte(code)) == 1
	}, email, password, slug, a)
	if err != nil {
		if millstream.KindOf(err) == millstream.Invalid {
			refund()
		}
		return Grant{}, err
	}
	refund()
	u, err := s.store.UserByEmail(ctx, normalEmail(email))
	if err != nil {
		return Grant{}, err
	}
	a.Action = "session.create"
	return s.signIn(ctx, u, "", from, a)
}

func (s *Service) setup(ctx context.Context, ok func(seed []byte) bool, email, password, slug string, a Entry) (err error) {
	u := User{ID: newID(), CreatedAt: s.now()}
	if u.Email, err = checkEmail(email); err != nil {
		return err
	}
	name := slug
	if slug == "" {
		slug, name = firstSlug, firstName
	}
	o, err := s.newOrganization(slug, name)
	if err != nil {
		return err
	}
	if u.Password, err = s.hasher.hash(ctx, password); err != nil {
		return err
	}
	a.Org, a.Target, a.Actor = o.ID, u.Email, "user:"+u.Email
	return s.store.Setup(ctx, ok, u, o, a)
}

// Record writes an audit entry that belongs to no change in the database. Entries of refused calls are bounded per actor.
func (s *Service) Record(ctx context.Context, a Entry) error {
	if a.Outcome == Refused {
		if _, ok := s.refusals.take(a.Actor, s.own()); !ok {
			return nil
		}
	}
	return s.store.Record(ctx, a)
}

// The outcomes of an audit entry.
const (
	OK      = "ok"
	Refused = "refused"
)

// Audit lists audit entries of the principal's organization, newest first.
func (s *Service) Audit(ctx context.Context, p *Principal, f AuditFilter) ([]Entry, error) {
	f.Org = p.Org
	return s.store.Audit(ctx, f)
}
