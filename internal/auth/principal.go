package auth

import (
	"encoding/json"

	"github.com/millstream/millstream"
)

// passed is a principal on its way to another node. Roles and scopes go by name, so that nodes of adjacent releases understand each other. Sessions stay
// where they were checked.
type passed struct {
	User         string           `json:"user,omitempty"`
	Email        string           `json:"email,omitempty"`
	Org          millstream.OrgID `json:"org"`
	Slug         string           `json:"slug"`
	Role         string           `json:"role,omitempty"`
	Scopes       []string         `json:"scopes"`
	Token        string           `json:"token,omitempty"`
	Installation string           `json:"installation,omitempty"`
}

// Encode writes what another node must know of a principal to work for it. It is no credential: a node believes it because of who brings it.
func (p *Principal) Encode() []byte {
	text, _ := json.Marshal(passed{User: p.User, Email: p.Email, Org: p.Org, Slug: p.Slug, Role: p.Role.String(), Scopes: p.Scopes.Names(), Token: p.TokenID, Installation: p.Installation.String()}) // strings always encode
	return text
}

// DecodePrincipal reads what Encode wrote. A scope or role that this release does not know gives no rights.
func DecodePrincipal(text []byte) (*Principal, error) {
	var in passed
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, millstream.Wrap(millstream.Unauthenticated, err, "the node that passed the request on does not say for whom")
	}
	if in.Org == "" {
		return nil, millstream.Errorf(millstream.Unauthenticated, "the node that passed the request on names no organization")
	}
	p := &Principal{User: in.User, Email: in.Email, Org: in.Org, Slug: in.Slug, TokenID: in.Token}
	p.Role, _ = ParseRole(in.Role)
	p.Installation, _ = ParseRole(in.Installation)
	for _, name := range in.Scopes {
		if s, err := ParseScopes([]string{name}); err == nil {
			p.Scopes |= s
		}
	}
	return p, nil
}
