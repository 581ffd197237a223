package auth

import (
	"context"
	"strings"

	"github.com/millstream/millstream"
)

// Organizations lists those the principal belongs to; an API token belongs to one.
func (s *Service) Organizations(ctx context.Context, p *Principal) ([]Organization, error) {
	if p.TokenID == "" {
		return s.store.Organizations(ctx, p.User)
	}
	o, err := s.store.Organization(ctx, p.Org)
	return []Organization{o}, err
}

// Memberships lists the organizations a principal can choose, with the role in each.
func (s *Service) Memberships(ctx context.Context, p *Principal) ([]Membership, error) {
	if p.TokenID != "" {
		o, err := s.store.Organization(ctx, p.Org)
		return []Membership{{Org: o.ID, Slug: o.Slug, Name: o.Name, Role: p.Role}}, err
	}
	return s.store.Memberships(ctx, p.User)
}

// Organization reads the principal's organization. Any other id is NotFound: one works in one organization at a time.
func (s *Service) Organization(ctx context.Context, p *Principal, id millstream.OrgID) (Organization, error) {
	if err := own(p, id); err != nil {
		return Organization{}, err
	}
	return s.store.Organization(ctx, id)
}

// CreateOrganization makes an organization with the principal as its owner.
func (s *Service) CreateOrganization(ctx context.Context, p *Principal, slug, name string, a Entry) (Organization, error) {
	if p.TokenID != "" {
		return Organization{}, millstream.Errorf(millstream.Forbidden, "an organization needs a person as its owner: sign in to create one")
	}
	o, err := s.newOrganization(slug, name)
	if err != nil {
		return o, err
	}
	a.Org, a.Target = o.ID, o.Slug
	if err := s.store.CreateOrganization(ctx, o, p.User, a); err != nil {
		return o, err
	}
	s.sessions.clear()
	return o, nil
}

func (s *Service) newOrganization(slug, name string) (o Organization, err error) {
	if err := CheckSlug(slug); err != nil {
		return o, err
	}
	if strings.TrimSpace(name) == "" {
		name = slug
	}
	if name, err = checkName("name", name); err != nil {
		return o, err
	}
	return Organization{ID: millstream.OrgID(newID()), Slug: slug, Name: name, CreatedAt: s.now()}, nil
}

// UpdateOrganization changes the settings of the principal's organization.
func (s *Service) UpdateOrganization(ctx context.Context, p *Principal, id millstream.OrgID, patch OrganizationPatch, a Entry) (o Organization, err error) {
	if err := own(p, id); err != nil {
		return o, err
	}
	if patch.Slug != nil {
		if err := CheckSlug(*patch.Slug); err != nil {
			return o, err
		}
	}
	if patch.Name != nil {
		name, err := checkName("name", *patch.Name)
		if err != nil {
			return o, err
		}
		patch.Name = &name
	}
	for what, v := range map[string]*int{"retention_days": patch.RetentionDays, "intake_qps": patch.IntakeQPS, "query_qps": patch.QueryQPS} {
		if v != nil && (*v < 0 || *v > maxSetting) {
			return o, millstream.Errorf(millstream.Invalid, "%s is %d, it must lie between 0 (the node's default) and %d", what, *v, maxSetting)
		}
	}
	if patch.QuotaBytes != nil && *patch.QuotaBytes < 0 {
		return o, millstream.Errorf(millstream.Invalid, "quota_bytes is negative; 0 means no quota")
	}
	a.Target = string(id)
	a.Detail = patch.changes()
	if o, err = s.store.UpdateOrganization(ctx, id, patch, a); err != nil {
		return o, err
	}
	s.Changed() // a principal carries its organization's slug
	return o, nil
}

const maxSetting = 1_000_000

func (p OrganizationPatch) changes() map[string]any {
	out := map[string]any{}
	add := func(name string, v any, set bool) {
		if set {
			out[name] = v
		}
	}
	add("slug", p.Slug, p.Slug != nil)
	add("name", p.Name, p.Name != nil)
	add("retention_days", p.RetentionDays, p.RetentionDays != nil)
	add("intake_qps", p.IntakeQPS, p.IntakeQPS != nil)
	add("query_qps", p.QueryQPS, p.QueryQPS != nil)
	add("quota_bytes", p.QuotaBytes, p.QuotaBytes != nil)
	return out
}

// DeleteOrganization deletes the principal's organization with all its data and people.
func (s *Service) DeleteOrganization(ctx context.Context, p *Principal, id millstream.OrgID, a Entry) error {
	if err := own(p, id); err != nil {
		return err
	}
	a.Target = p.Slug
	if err := s.store.DeleteOrganization(ctx, id, a); err != nil {
		return err
	}
	s.Changed()
	return nil
}

func own(p *Principal, id millstream.OrgID) error {
	if p.Org != id {
		return millstream.Errorf(millstream.NotFound, "organization %q does not exist, or is not the one you work in (choose it by X-Org-Id)", cut(string(id), 64))
	}
	return nil
}
