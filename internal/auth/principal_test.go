package auth

import (
	"testing"

	"github.com/millstream/millstream"
)

func TestPrincipalsTravel(t *testing.T) {
	for name, p := range map[string]Principal{
		"session": {User: "u", Email: "a@example.com", Org: "o", Slug: "s", Role: Admin, Scopes: AllScopes, Installation: Owner},
		"token":   {User: "u", Org: "o", Slug: "s", Role: Viewer, Scopes: Query, TokenID: "t"},
		"nobody":  {Org: "o", Slug: "s", TokenID: "t", Scopes: Intake},
	} {
		sent := p
		sent.Session, sent.Degraded = "secret", true // neither is anybody else's business
		got, err := DecodePrincipal(sent.Encode())
		if err != nil || *got != p || got.Actor() != p.Actor() {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "{", `{"slug":"s"}`, `[]`} {
		if p, err := DecodePrincipal([]byte(bad)); millstream.KindOf(err) != millstream.Unauthenticated {
			t.Errorf("%q: %+v, %v", bad, p, err)
		}
	}
	p, err := DecodePrincipal([]byte(`{"org":"o","role":"emperor","scopes":["query","time travel"],"later":1}`))
	if err != nil || p.Role != NoRole || p.Scopes != Query || p.May(Query, Viewer) {
		t.Errorf("what is not known gives rights: %+v, %v", p, err)
	}
}
