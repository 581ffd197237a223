package app

import (
	"context"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/telemetry"
)

// selfCollect writes the node's own telemetry, if that is on: into its own intake for the first organization, else into that of other nodes for the one whose
// token it has.
func (p *parts) selfCollect(ctx context.Context, ready func()) error {
	if !p.cfg.Telemetry.SelfCollect {
		ready()
		<-ctx.Done()
		return nil
	}
	c := telemetry.Config{Node: millstream.NodeID(p.cfg.Node.ID), Gatherer: p.registry, Log: p.log, Interval: telemetry.Interval}
	switch {
	case p.writer != nil:
		c.To, c.Org = p.writer, p.firstOrganization
	case p.router != nil:
		c.To = p.router
	default:
		c.To = ingest.NewRouter(ingest.RouterConfig{Self: millstream.NodeID(p.cfg.Node.ID), View: p.membership.View, Dial: p.dialIntake})
	}
	if c.Org == nil {
		c.Org = telemetry.ByToken(p.auth, p.cfg.SelfTelemetry.ClusterToken, p.log, p.Now)
	}
	return p.collector.Run(ctx, c, ready)
}

// firstOrganization owns the node's own telemetry.
func (p *parts) firstOrganization(ctx context.Context) (millstream.OrgID, bool) {
	orgs, err := p.store.Organizations(ctx, "")
	if err != nil || len(orgs) == 0 {
		return "", false
	}
	return orgs[0].ID, true
}
