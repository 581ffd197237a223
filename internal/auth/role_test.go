package auth

import (
	"slices"
	"testing"
)

func TestRolesAndScopesHaveNames(t *testing.T) {
	for r := Viewer; r <= Owner; r++ {
		if got, err := ParseRole(r.String()); err != nil || got != r {
			t.Errorf("role %d: %v, %v", r, got, err)
		}
	}
	for _, bad := range []string{"", "root", "Owner"} {
		if _, err := ParseRole(bad); err == nil {
			t.Errorf("role %q was taken", bad)
		}
	}
	for s := Scope(1); s <= AllScopes; s++ {
		if got, err := ParseScopes(s.Names()); err != nil || got != s {
			t.Errorf("scopes %v: %v, %v", s, got, err)
		}
	}
	for _, bad := range [][]string{nil, {}, {"write"}, {"query", ""}} {
		if _, err := ParseScopes(bad); err == nil {
			t.Errorf("scopes %q were taken", bad)
		}
	}
}

func TestMay(t *testing.T) {
	for name, c := range map[string]struct {
		p     Principal
		scope Scope
		role  Role
		want  bool
	}{
		"session above":               {Principal{Role: Admin, Scopes: AllScopes}, Query, Viewer, true},
		"session equal":               {Principal{Role: Admin, Scopes: AllScopes}, Administer, Admin, true},
		"session below":               {Principal{Role: Editor, Scopes: AllScopes}, Administer, Admin, false},
		"viewer's session and intake": {Principal{Role: Viewer, Scopes: AllScopes}, Intake, Editor, false},
		"token with the scope":        {Principal{Role: Owner, Scopes: Query, TokenID: "t"}, Query, Viewer, true},
		"token without the scope":     {Principal{Role: Owner, Scopes: Query, TokenID: "t"}, Administer, Viewer, false},
		"intake token, maker gone":    {Principal{Role: NoRole, Scopes: Intake, TokenID: "t"}, Intake, Editor, true},
		"intake token reads":          {Principal{Role: Owner, Scopes: Intake, TokenID: "t"}, Query, Viewer, false},
		"query token, maker gone":     {Principal{Role: NoRole, Scopes: Query, TokenID: "t"}, Query, Viewer, false},
	} {
		if got := c.p.May(c.scope, c.role); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTokenForms(t *testing.T) {
	text, id, hash := newToken(apiPrefix)
	if got, ok := tokenID(text, apiPrefix); !ok || got != id || hash != hashOf(text) {
		t.Fatalf("%s: id %q, %v", text, got, ok)
	}
	if len(text) != 3+8+1+52 {
		t.Errorf("%s has %d characters", text, len(text))
	}
	other, _, _ := newToken(apiPrefix)
	if other == text {
		t.Error("two tokens are equal")
	}
	bad := []string{"", "ms_", text[1:], text[:len(text)-1], text + "a", "msr_" + text[3:], text[:11] + "-" + text[12:], text[:20] + "A" + text[21:], text[:20] + "\x00" + text[21:]}
	if i := slices.IndexFunc(bad, func(s string) bool { _, ok := tokenID(s, apiPrefix); return ok }); i >= 0 {
		t.Errorf("%q was taken for a token", bad[i])
	}
}
