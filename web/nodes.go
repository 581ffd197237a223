package web

import (
	"net/http"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

// ownStream has the nodes' own logs, in the organization that keeps them.
const ownStream = "_millstream"

// nodes is the shell of the cluster map, whose script follows the nodes over the API.
func (p *Pages) nodes(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := looksAfter(v); err != nil {
		return err
	}
	streams, _, err := p.Catalog.Streams(r.Context(), v.who.Org, millstream.Logs)
	if err != nil {
		return err
	}
	kept := slices.ContainsFunc(streams, func(s store.StreamSummary) bool { return s.Key.Name == ownStream })
	v.frame.Data = map[string]any{"telemetry": kept}
	return p.render(w, r, http.StatusOK, ui.Explorer{Frame: v.frame, Title: "Nodes", Script: "nodes.js"}.Page())
}
