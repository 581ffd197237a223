package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// nameReader lists names that are in the telemetry itself. *query.Engine fits.
type nameReader interface {
	MetricNames(ctx context.Context, req query.Request) ([]string, error)
	ServiceNames(ctx context.Context, req query.Request) ([]string, error)
}

const (
	namesAge      = time.Minute           // how old the lists may be
	namesRange    = 6 * time.Hour         // what had data in this time is listed
	namesPatience = 10 * time.Millisecond // how long a search waits for new lists
	namesTimeout  = 20 * time.Second      // how long reading them may take
	maxNamesOrgs  = 32                    // organizations whose lists are kept
	maxNames      = 200_000               // names in a list
)

// names keeps the names of services and metrics of the organizations that searched last: reading them takes longer than a search may.
type names struct {
	read nameReader // nil: there are none
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex
	orgs map[millstream.OrgID]*orgNames
}

// orgNames are the lists of one organization, guarded by names.mu; the lists themselves are never changed.
type orgNames struct {
	services, metrics []string
	read, used        time.Time
	loading           chan struct{} // closed when the reading that goes on has ended; nil: none goes on
}

// of returns the lists there are. Lists that are too old are read again meanwhile, and waited for a moment only.
func (n *names) of(ctx context.Context, org millstream.OrgID) orgNames {
	if n.read == nil {
		return orgNames{}
	}
	n.mu.Lock()
	o := n.entry(org)
	if o.loading == nil && n.now().Sub(o.read) > namesAge {
		o.loading = make(chan struct{})
		go n.load(context.WithoutCancel(ctx), org, o) // ends by its own time limit
	}
	loading := o.loading
	n.mu.Unlock()
	if loading != nil {
		patience := time.NewTimer(namesPatience)
		defer patience.Stop()
		select {
		case <-loading:
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return *o
}

// entry finds or makes an organization's entry; the one that was not used for longest makes room.
func (n *names) entry(org millstream.OrgID) *orgNames {
	o := n.orgs[org]
	if o == nil {
		if len(n.orgs) >= maxNamesOrgs {
			var oldest millstream.OrgID
			for id, e := range n.orgs {
				if oldest == "" || e.used.Before(n.orgs[oldest].used) {
					oldest = id
				}
			}
			delete(n.orgs, oldest)
		}
		o = &orgNames{}
		n.orgs[org] = o
	}
	o.used = n.now()
	return o
}

// load reads the lists. One that cannot be read stays as it was.
func (n *names) load(ctx context.Context, org millstream.OrgID, o *orgNames) {
	ctx, cancel := context.WithTimeout(ctx, namesTimeout)
	defer cancel()
	now := n.now()
	req := query.Request{Org: org, User: "system", Range: millstream.TimeRange{Start: now.Add(-namesRange).UnixNano(), End: now.UnixNano() + 1}}
	services, serr := n.read.ServiceNames(ctx, req)
	metrics, merr := n.read.MetricNames(ctx, req)
	for _, err := range []error{serr, merr} {
		if err != nil {
			n.log.Debug("names for the search could not be read", keyOrg, org, keyError, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if serr == nil {
		o.services = services[:min(len(services), maxNames)]
	}
	if merr == nil {
		o.metrics = metrics[:min(len(metrics), maxNames)]
	}
	o.read = n.now()
	close(o.loading)
	o.loading = nil
}
