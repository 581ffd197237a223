package store_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

var now = time.Now().UTC().Truncate(time.Microsecond) // the database compares some of it with its own clock

func person(email string) auth.User {
	return auth.User{ID: uuid.NewString(), Email: email, Name: "Somebody", Password: "hash", CreatedAt: now}
}

func organization(slug string) auth.Organization {
	return auth.Organization{ID: millstream.OrgID(uuid.NewString()), Slug: slug, Name: slug, CreatedAt: now}
}

func hash(s string) auth.Hash { return sha256.Sum256([]byte(s)) }

// home is a store with the organization "home" and its owner.
type home struct {
	*store.Store
	t     testing.TB
	org   auth.Organization
	owner auth.User
}

func newHome(t testing.TB) *home { return newHomeAt(t, storetest.New(t)) }

func newHomeAt(t testing.TB, s *store.Store) *home {
	h := &home{Store: s, t: t, org: organization("home"), owner: person("owner@example.test")}
	check(t, h.Setup(ctx, nil, h.owner, h.org, h.entry("setup")))
	return h
}

func (h *home) entry(action string) auth.Entry {
	return auth.Entry{Actor: "user:owner@example.test", Action: action, Org: h.org.ID, At: now}
}

func (h *home) add(email string, role auth.Role) auth.User {
	h.t.Helper()
	u := person(email)
	u.Password = ""
	inv := &auth.Invite{Hash: hash("invite " + email), User: u.ID, ExpiresAt: time.Now().Add(time.Hour)} // what sweeps goes by the database's clock
	m, _, err := h.AddMember(ctx, h.org.ID, u, role, inv, auth.Owner, h.entry("member.add"))
	check(h.t, err)
	return m.User
}

func (h *home) role(user string) auth.Role {
	h.t.Helper()
	for _, m := range must(h.Members(ctx, h.org.ID))(h.t) {
		if m.ID == user {
			return m.Role
		}
	}
	return auth.NoRole
}

func TestSetupRace(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	seed := hash("seed")
	for _, next := range []auth.Hash{seed, hash("of another node")} {
		if kept := must(s.SetupSeed(ctx, next))(t); !bytes.Equal(kept, seed[:]) {
			t.Fatalf("the setup's seed is %x, want the first one", kept)
		}
	}
	right := func(kept []byte) bool { return bytes.Equal(kept, seed[:]) }
	wantKind(t, s.Setup(ctx, func([]byte) bool { return false }, person("a@example.test"), organization("a"), auth.Entry{Action: "setup"}), millstream.Unauthenticated)

	const tries = 5
	kinds := make(chan millstream.Kind, tries)
	for i := range tries {
		go func() {
			err := s.Setup(ctx, right, person(fmt.Sprint(i, "@example.test")), organization(fmt.Sprint("org", i)), auth.Entry{Action: "setup"})
			if err == nil {
				kinds <- 255
				return
			}
			kinds <- millstream.KindOf(err)
		}()
	}
	count := map[millstream.Kind]int{}
	for range tries {
		count[<-kinds]++
	}
	if count[255] != 1 || count[millstream.Conflict] != tries-1 {
		t.Fatalf("outcomes %v: want one setup done and the others refused", count)
	}
	if n := len(must(s.Organizations(ctx, ""))(t)); n != 1 {
		t.Fatalf("%d organizations, want 1", n)
	}
	if kept := must(s.SetupSeed(ctx, seed))(t); kept != nil {
		t.Fatal("the setup is open again")
	}
}

func TestMembersAndRanks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	admin, viewer := h.add("admin@example.test", auth.Admin), h.add("viewer@example.test", auth.Viewer)
	e := h.entry("member.change")

	wantKind(t, h.SetMemberRole(ctx, h.org.ID, h.owner.ID, auth.Viewer, auth.Admin, e), millstream.Forbidden)
	wantKind(t, h.RemoveMember(ctx, h.org.ID, h.owner.ID, auth.Admin, e), millstream.Forbidden)
	wantKind(t, h.SetMemberRole(ctx, h.org.ID, viewer.ID, auth.Owner, auth.Admin, e), millstream.Forbidden)
	_, _, err := h.AddMember(ctx, h.org.ID, person("x@example.test"), auth.Owner, nil, auth.Admin, e)
	wantKind(t, err, millstream.Forbidden)
	wantKind(t, h.SetMemberRole(ctx, h.org.ID, h.owner.ID, auth.Admin, auth.Owner, e), millstream.Conflict) // the last owner
	wantKind(t, h.RemoveMember(ctx, h.org.ID, h.owner.ID, auth.Owner, e), millstream.Conflict)
	wantKind(t, h.SetMemberRole(ctx, h.org.ID, uuid.NewString(), auth.Viewer, auth.Owner, e), millstream.NotFound)
	wantKind(t, h.RemoveMember(ctx, h.org.ID, "no uuid", auth.Owner, e), millstream.NotFound)

	check(t, h.SetMemberRole(ctx, h.org.ID, admin.ID, auth.Owner, auth.Owner, e))
	check(t, h.SetMemberRole(ctx, h.org.ID, h.owner.ID, auth.Viewer, auth.Owner, e))
	if h.role(admin.ID) != auth.Owner || h.role(h.owner.ID) != auth.Viewer {
		t.Fatal("the roles did not change")
	}
	check(t, h.RemoveMember(ctx, h.org.ID, viewer.ID, auth.Owner, e))
	_, err = h.UserByEmail(ctx, viewer.Email)
	wantKind(t, err, millstream.NotFound) // it was the only organization of this user
}

// Two owners demote each other at once: one of them must stay owner.
func TestLastOwnerRace(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	second := h.add("second@example.test", auth.Owner)
	for range 5 {
		var wg sync.WaitGroup
		for _, u := range []string{h.owner.ID, second.ID} {
			wg.Add(1)
			go func() {
				defer wg.Done()
				err := h.SetMemberRole(ctx, h.org.ID, u, auth.Viewer, auth.Owner, h.entry("member.role"))
				if err != nil && millstream.KindOf(err) != millstream.Conflict {
					t.Error(err)
				}
			}()
		}
		wg.Wait()
		if (h.role(h.owner.ID) == auth.Owner) == (h.role(second.ID) == auth.Owner) {
			t.Fatalf("roles %v and %v: want exactly one owner", h.role(h.owner.ID), h.role(second.ID))
		}
		for _, u := range []string{h.owner.ID, second.ID} {
			check(t, h.SetMemberRole(ctx, h.org.ID, u, auth.Owner, auth.Owner, h.entry("member.role")))
		}
	}
}

func TestAddMember(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	e := h.entry("member.add")
	u := h.add("New@Example.test", auth.Editor)
	if got := must(h.UserByEmail(ctx, "new@example.TEST"))(t); got.ID != u.ID {
		t.Fatalf("found %+v, want %+v", got, u)
	}
	for _, absent := range []string{"none@example.test", "nul\x00", "\xff"} {
		_, err := h.UserByEmail(ctx, absent)
		wantKind(t, err, millstream.NotFound)
	}
	again := person("new@example.test")
	again.Password = ""
	_, _, err := h.AddMember(ctx, h.org.ID, again, auth.Viewer, nil, auth.Owner, e)
	wantKind(t, err, millstream.Conflict) // a member already

	other := organization("other")
	check(t, h.CreateOrganization(ctx, other, h.owner.ID, e))
	again.Password = "taken over"
	_, _, err = h.AddMember(ctx, other.ID, again, auth.Viewer, nil, auth.Owner, e)
	wantKind(t, err, millstream.Conflict) // it would set the password of somebody else's account
	again.Password = ""
	m, created, err := h.AddMember(ctx, other.ID, again, auth.Viewer, &auth.Invite{Hash: hash("unused"), User: again.ID, ExpiresAt: now.Add(time.Hour)}, auth.Owner, e)
	check(t, err)
	if created || m.ID != u.ID || m.Role != auth.Viewer || !m.Pending {
		t.Fatalf("member %+v, created %v", m, created)
	}
	if got := must(h.Memberships(ctx, u.ID))(t); len(got) != 2 || got[0].Slug != "home" || got[1].Role != auth.Viewer {
		t.Fatalf("memberships %+v", got)
	}
	check(t, h.RemoveMember(ctx, other.ID, u.ID, auth.Owner, e))
	must(h.UserByEmail(ctx, u.Email))(t) // still belongs to home
}

func TestInvites(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	e := h.entry("invite.accept")
	u := h.add("new@example.test", auth.Editor)
	_, err := h.AcceptInvite(ctx, hash("invite new@example.test"), "p", time.Now().Add(2*time.Hour), e)
	wantKind(t, err, millstream.NotFound) // expired
	got := must(h.AcceptInvite(ctx, hash("invite new@example.test"), "p1", now, e))(t)
	if got.ID != u.ID || got.Password != "p1" {
		t.Fatalf("user %+v", got)
	}
	_, err = h.AcceptInvite(ctx, hash("invite new@example.test"), "p2", now, e)
	wantKind(t, err, millstream.NotFound) // used

	check(t, h.CreateSession(ctx, auth.Session{ID: "s", User: u.ID, Hash: hash("r"), ExpiresAt: now.Add(time.Hour)}, e))
	first := auth.Invite{Hash: hash("1"), User: u.ID, ExpiresAt: now.Add(time.Hour)}
	second := auth.Invite{Hash: hash("2"), User: u.ID, ExpiresAt: now.Add(time.Hour)}
	check(t, h.Reinvite(ctx, h.org.ID, first, auth.Admin, e))
	check(t, h.Reinvite(ctx, h.org.ID, second, auth.Admin, e))
	_, err = h.AcceptInvite(ctx, first.Hash, "p", now, e)
	wantKind(t, err, millstream.NotFound) // replaced
	must(h.AcceptInvite(ctx, second.Hash, "p3", now, e))(t)
	_, err = h.SessionRights(ctx, "s", now)
	wantKind(t, err, millstream.NotFound) // a new password ends the sessions

	owners := auth.Invite{Hash: hash("3"), User: h.owner.ID, ExpiresAt: now.Add(time.Hour)}
	wantKind(t, h.Reinvite(ctx, h.org.ID, owners, auth.Admin, e), millstream.Forbidden)
	check(t, h.Reinvite(ctx, h.org.ID, first, auth.Admin, e))
	check(t, h.CreateOrganization(ctx, organization("other"), u.ID, e))
	wantKind(t, h.Reinvite(ctx, h.org.ID, first, auth.Owner, e), millstream.Conflict) // belongs to others too
	_, err = h.AcceptInvite(ctx, first.Hash, "taken over", now, e)
	wantKind(t, err, millstream.NotFound) // and an invitation from before it gives nobody the rights there
	if got := must(h.UserByEmail(ctx, u.Email))(t); got.Password != "p3" {
		t.Fatalf("the password is %q", got.Password)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	e := h.entry("session.create")
	open := func(id string) {
		t.Helper()
		check(t, h.CreateSession(ctx, auth.Session{ID: id, User: h.owner.ID, Hash: hash(id + "0"), ExpiresAt: now.Add(time.Hour), Agent: "bad\x00agent"}, e))
	}
	rotate := func(id, old, new string) error {
		t.Helper()
		user, err := h.RotateSession(ctx, id, hash(old), hash(new), now, now.Add(time.Hour))
		if err == nil && user != h.owner.ID {
			t.Fatalf("user %s, want %s", user, h.owner.ID)
		}
		return err
	}
	ended := func(id string) {
		t.Helper()
		_, err := h.SessionRights(ctx, id, now)
		wantKind(t, err, millstream.NotFound)
	}
	open("a")
	rights := must(h.SessionRights(ctx, "a", now))(t)
	if !reflect.DeepEqual(rights, auth.SessionRights{User: rights.User, Memberships: []auth.Membership{{Org: h.org.ID, Slug: "home", Name: "home", Role: auth.Owner, Installation: true}}}) || rights.User.ID != h.owner.ID {
		t.Fatalf("rights %+v", rights)
	}
	check(t, rotate("a", "a0", "a1"))
	check(t, rotate("a", "a1", "a2"))
	wantKind(t, rotate("a", "guess", "a3"), millstream.NotFound)
	must(h.SessionRights(ctx, "a", now))(t) // a guess ends nothing
	if err := rotate("a", "a0", "a3"); !errors.Is(err, auth.ErrReused) {
		t.Fatalf("got %v, want ErrReused", err)
	}
	ended("a")
	wantKind(t, rotate("a", "a2", "a3"), millstream.NotFound) // the newest one is void too

	open("b")
	check(t, h.RevokeSession(ctx, "b", e))
	ended("b")
	wantKind(t, h.RevokeSession(ctx, "none", e), millstream.NotFound)

	open("c")
	_, err := h.SessionRights(ctx, "c", now.Add(2*time.Hour))
	wantKind(t, err, millstream.NotFound)

	open("d")
	open("kept")
	check(t, h.SetPassword(ctx, h.owner.ID, "new", "kept", e))
	ended("d")
	if got := must(h.SessionRights(ctx, "kept", now))(t); got.User.Password != "new" {
		t.Fatalf("user %+v", got.User)
	}
}

// A refresh token that two clients use at once is good for one of them, and the other one's use ends the session.
func TestRotateSessionRace(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	check(t, h.CreateSession(ctx, auth.Session{ID: "a", User: h.owner.ID, Hash: hash("0"), ExpiresAt: now.Add(time.Hour)}, h.entry("session.create")))
	errs := make(chan error, 2)
	for i := range cap(errs) {
		go func() {
			_, err := h.RotateSession(ctx, "a", hash("0"), hash(fmt.Sprint("new", i)), now, now.Add(time.Hour))
			errs <- err
		}()
	}
	a, b := <-errs, <-errs
	if (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), auth.ErrReused) {
		t.Fatalf("got %v and %v, want one success and one reuse", a, b)
	}
}

func TestAPITokens(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	maker := h.add("maker@example.test", auth.Editor)
	e := h.entry("token.create")
	tok := auth.APIToken{ID: "abcdefgh", Org: h.org.ID, User: maker.ID, Name: "ci", Hash: hash("secret"), Scopes: auth.Intake | auth.Query, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	check(t, h.CreateToken(ctx, tok, e))
	wantKind(t, h.CreateToken(ctx, tok, e), millstream.Conflict)
	want := tok
	want.Slug, want.Email, want.MakerRole, want.OfInstallation = "home", maker.Email, auth.Editor, true
	same := func(got auth.APIToken) {
		t.Helper()
		got.CreatedAt, got.ExpiresAt, got.LastUsedAt = got.CreatedAt.UTC(), got.ExpiresAt.UTC(), got.LastUsedAt.UTC()
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("token %+v, want %+v", got, want)
		}
	}
	same(must(h.Token(ctx, tok.ID))(t))
	for _, used := range []struct{ at, kept time.Time }{{now, now}, {now.Add(30 * time.Second), now}, {now.Add(2 * time.Minute), now.Add(2 * time.Minute)}} {
		check(t, h.TouchToken(ctx, tok.ID, used.at))
		want.LastUsedAt = used.kept
		same(must(h.Token(ctx, tok.ID))(t))
	}
	check(t, h.RemoveMember(ctx, h.org.ID, maker.ID, auth.Owner, e))
	want.User, want.Email, want.MakerRole = "", "", auth.NoRole
	same(must(h.Tokens(ctx, h.org.ID))(t)[0])

	wantKind(t, h.DeleteToken(ctx, h.org.ID, tok.ID, h.owner.ID, e), millstream.NotFound) // not that maker's
	wantKind(t, h.DeleteToken(ctx, millstream.OrgID(uuid.NewString()), tok.ID, "", e), millstream.NotFound)
	check(t, h.DeleteToken(ctx, h.org.ID, tok.ID, "", e))
	_, err := h.Token(ctx, tok.ID)
	wantKind(t, err, millstream.NotFound)
	_, err = h.Token(ctx, "bad\x00\xff")
	wantKind(t, err, millstream.NotFound)
}

func TestSigningKeys(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var wg sync.WaitGroup
	for i := range 4 { // nodes that start together make one first key
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := h.RotateKey(ctx, auth.Key{ID: fmt.Sprint("first", i), Secret: []byte{1}, CreatedAt: now}, now, true, h.entry("jwt_key.create")); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if keys := must(h.Keys(ctx, now))(t); len(keys) != 1 || !keys[0].ValidUntil.IsZero() {
		t.Fatalf("keys %+v", keys)
	}
	check(t, h.RotateKey(ctx, auth.Key{ID: "second", Secret: []byte{2}, CreatedAt: now.Add(time.Minute)}, now.Add(24*time.Hour), false, h.entry("jwt_key.rotate")))
	keys := must(h.Keys(ctx, now))(t)
	if len(keys) != 2 || keys[0].ID != "second" || !keys[0].ValidUntil.IsZero() || !keys[1].ValidUntil.Equal(now.Add(24*time.Hour)) {
		t.Fatalf("keys %+v", keys)
	}
	if keys := must(h.Keys(ctx, now.Add(25*time.Hour)))(t); len(keys) != 1 {
		t.Fatalf("keys %+v: a retired one still verifies", keys)
	}
}

func TestOrganizations(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	e := h.entry("organization.change")
	wantKind(t, h.CreateOrganization(ctx, organization("HOME"), h.owner.ID, e), millstream.Conflict)
	wantKind(t, h.CreateOrganization(ctx, organization("bad slug"), h.owner.ID, e), millstream.Invalid)
	wantKind(t, h.DeleteOrganization(ctx, h.org.ID, e), millstream.Conflict) // the last one

	other := organization("other")
	check(t, h.CreateOrganization(ctx, other, h.owner.ID, e))
	days, quota := 14, int64(1<<40)
	got := must(h.UpdateOrganization(ctx, other.ID, auth.OrganizationPatch{RetentionDays: &days, QuotaBytes: &quota}, e))(t)
	if got.RetentionDays != 14 || got.QuotaBytes != quota || got.Slug != "other" || got.IntakeQPS != 0 {
		t.Fatalf("organization %+v", got)
	}
	taken := "Home"
	_, err := h.UpdateOrganization(ctx, other.ID, auth.OrganizationPatch{Slug: &taken}, e)
	wantKind(t, err, millstream.Conflict)
	if list := must(h.Organizations(ctx, h.owner.ID))(t); len(list) != 2 {
		t.Fatalf("organizations %+v", list)
	}

	w := &world{Store: h.Store, t: t, org: other.ID, wal: millstream.WALID(uuid.NewString()), node: millstream.Member{ID: "n"}}
	w.start()
	w.take(w.claim())
	st := w.stream("app")
	w.publish(w.flush(0, 1, st), store.Published)
	check(t, h.DeleteOrganization(ctx, other.ID, e))
	if n := len(w.live(st)); n != 0 {
		t.Fatalf("%d live segments of a deleted organization", n)
	}
	_, err = h.Organization(ctx, other.ID)
	wantKind(t, err, millstream.NotFound)
	must(h.UserByEmail(ctx, h.owner.Email))(t) // belongs to home too
	w.publish(w.flush(1, 2, st), store.Published)
	if n := len(w.live(st)); n != 0 {
		t.Fatalf("%d live segments of a deleted organization after a late flush", n)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for i := range 5 {
		check(t, h.Record(ctx, auth.Entry{At: now.Add(time.Duration(i) * time.Second), Org: h.org.ID, Actor: "anonymous", Action: "token.delete", Target: "bad\x00\xff", Outcome: auth.Refused, Detail: map[string]any{"nul\x00": "\x00", "i": float64(i)}}))
	}
	check(t, h.Record(ctx, auth.Entry{At: now.Add(time.Minute), Action: "node.start", Actor: "system"}))
	page := must(h.Audit(ctx, auth.AuditFilter{Org: h.org.ID, Action: "token.delete", Limit: 2}))(t)
	if len(page) != 2 || page[0].Detail["i"] != 4.0 || page[0].Detail["nul\x00"] != "\x00" || page[0].Outcome != auth.Refused || page[0].Org != h.org.ID || page[0].ID == "" {
		t.Fatalf("page %+v", page)
	}
	next := must(h.Audit(ctx, auth.AuditFilter{Org: h.org.ID, Actor: "anonymous", Before: page[1].At}))(t)
	if len(next) != 3 || next[0].Detail["i"] != 2.0 {
		t.Fatalf("next page %+v", next)
	}
	if all := must(h.Audit(ctx, auth.AuditFilter{}))(t); len(all) != 7 || all[0].Action != "node.start" {
		t.Fatalf("all %+v", all)
	}
	// A change that fails leaves no entry.
	wantKind(t, h.RemoveMember(ctx, h.org.ID, h.owner.ID, auth.Owner, h.entry("member.remove")), millstream.Conflict)
	if got := must(h.Audit(ctx, auth.AuditFilter{Action: "member.remove"}))(t); len(got) != 0 {
		t.Fatalf("entries %+v", got)
	}
}
