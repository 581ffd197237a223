package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// rateAge is how long after the last report of any router an organization's leases are kept. A database that was away for longer knows of none.
const rateAge = 10 * time.Minute

// RateReport is what a router says of its part in the limits of organizations.
type RateReport struct {
	Node        millstream.NodeID
	Incarnation int64
	Routers     int           // that live, this one included
	TTL         time.Duration // after which a router without a report is gone
	Now         time.Time     // zero: the database's clock
	Asks        []RateAsk
}

// RateAsk is one organization's and class's line of a report. Rates are requests a second.
type RateAsk struct {
	Org    millstream.OrgID
	Class  string
	Limit  float64 // of the organization; 0 gives the part back
	Demand float64 // that the router sees
	Held   float64 // that it lets through until it has the answer, or until now if the answer does not come
}

// RateLease is the part of an organization's limit that a router may let through until TTL after it sent its report.
type RateLease struct {
	Org   millstream.OrgID
	Class string
	QPS   float64
}

// LeaseRates reports for a router, and gives it its parts of the limits anew. The parts of all routers never add up to more than the limit. A newer process of the
// node takes everything from this one. An organization that is gone has no lease.
func (s *Store) LeaseRates(ctx context.Context, r RateReport) ([]RateLease, error) {
	p := db.LeaseRatesParams{Node: string(r.Node), Incarnation: r.Incarnation, Routers: int32(max(r.Routers, 1)), TtlSecs: r.TTL.Seconds()}
	if !r.Now.IsZero() {
		p.Now = &r.Now
	}
	asks := slices.Clone(r.Asks)
	slices.SortFunc(asks, func(a, b RateAsk) int { return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Class, b.Class)) })
	for _, a := range asks {
		p.Orgs, p.Classes = append(p.Orgs, string(a.Org)), append(p.Classes, a.Class)
		p.Limits, p.Demands, p.Held = append(p.Limits, a.Limit), append(p.Demands, a.Demand), append(p.Held, a.Held)
	}
	rows, err := s.q.LeaseRates(ctx, p)
	if err != nil {
		return nil, fail(err, "lease the rates of node %s", r.Node)
	}
	out := make([]RateLease, len(rows))
	for i, row := range rows {
		out[i] = RateLease{Org: millstream.OrgID(row.OrgID), Class: row.Class}
		if row.Incarnation == r.Incarnation {
			out[i].QPS = row.Qps
		}
	}
	return out, nil
}
