package store

import (
	"context"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// UpsertMetadata keeps the latest description of metrics; the last of several for one name counts.
func (s *Store) UpsertMetadata(ctx context.Context, org millstream.OrgID, list []millstream.Metadata) error {
	if len(list) == 0 {
		return nil
	}
	byName := make(map[string]millstream.Metadata, len(list))
	for _, m := range list {
		byName[m.Name] = m
	}
	p := db.UpsertMetadataParams{OrgID: string(org)}
	for _, m := range byName {
		p.Names = append(p.Names, escape(m.Name))
	}
	slices.Sort(p.Names) // two writers lock rows in one order
	for _, name := range p.Names {
		m := byName[unescape(name)]
		p.Types, p.Units, p.Helps = append(p.Types, escape(m.Type)), append(p.Units, escape(m.Unit)), append(p.Helps, escape(m.Help))
	}
	return fail(s.q.UpsertMetadata(ctx, p), "keep the metadata of metrics")
}

// Metadata lists the descriptions of an organization's metrics by name.
func (s *Store) Metadata(ctx context.Context, org millstream.OrgID) ([]millstream.Metadata, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.MetadataRow, error) { return s.q.Metadata(ctx, string(org)) })
	if err != nil {
		return nil, fail(err, "read the metadata of metrics")
	}
	out := make([]millstream.Metadata, len(rows))
	for i, r := range rows {
		out[i] = metadataOf(r)
	}
	slices.SortFunc(out, func(a, b millstream.Metadata) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// MetadataOf gives the descriptions of those of some metrics that have one, by name.
func (s *Store) MetadataOf(ctx context.Context, org millstream.OrgID, names []string) (map[string]millstream.Metadata, error) {
	escaped := make([]string, len(names))
	for i, n := range names {
		escaped[i] = escape(n)
	}
	rows, err := read(ctx, func(ctx context.Context) ([]db.MetadataOfRow, error) {
		return s.q.MetadataOf(ctx, db.MetadataOfParams{OrgID: string(org), Names: escaped})
	})
	if err != nil {
		return nil, fail(err, "read the metadata of metrics")
	}
	out := make(map[string]millstream.Metadata, len(rows))
	for _, r := range rows {
		m := metadataOf(db.MetadataRow(r))
		out[m.Name] = m
	}
	return out, nil
}

func metadataOf(r db.MetadataRow) millstream.Metadata {
	return millstream.Metadata{Name: unescape(r.Name), Type: unescape(r.Type), Unit: unescape(r.Unit), Help: unescape(r.Help)}
}
