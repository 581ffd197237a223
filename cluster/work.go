package cluster

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

// Labels of divided work: what the units of each are.
const (
	Compaction        = "compaction"          // streams
	PartitionManifest = "partition_manifest"  // streams
	IndexRebuild      = "index_rebuild"       // organizations
	StorageReconciler = "storage_reconciler"  // organizations
	RuleEvaluation    = "rule_evaluation"     // rules
	Escalations       = "escalation_dispatch" // incidents
	primary           = "primary"             // 1 on the primary
)

// primaryKey is the fixed key whose owner is the primary.
var primaryKey = UnitKey(primary)

// Work divides units among the live nodes of a role. Every node computes the same owner of a unit from the same members. A node that joins gets its share when
// it has been in the membership for a peer timeout; the others hand it over as soon as they see the node. While members change two nodes may hold a unit for a
// moment, or none: whoever works must make its result harmless to repeat.
type Work struct {
	role string
	m    *Membership
	reg  prometheus.Registerer

	mu      sync.Mutex
	owned   map[string]prometheus.Gauge
	skipped map[string]prometheus.Counter
}

// NewWork divides the work of a role this node has. A registry takes one Work for each role.
func NewWork(role string, m *Membership, reg prometheus.Registerer) *Work {
	w := &Work{role: role, m: m, reg: reg, owned: map[string]prometheus.Gauge{}, skipped: map[string]prometheus.Counter{}}
	gauge := func(name, help, label, value string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}, f))
	}
	gauge("work_ownership_members", "Live members that this node sees of a role whose work is divided.", "role", role, func() float64 { return float64(m.View().Count(role)) })
	gauge("work_ownership_active", "1 while this node takes work of the role, 0 while it warms up, drains or is fenced.", "role", role, func() float64 { return number(w.Active()) })
	if role == Alert {
		gauge(ownedName, ownedHelp, "work", primary, func() float64 { return number(w.Primary()) })
	}
	return w
}

const (
	ownedName = "work_ownership_owned_units"
	ownedHelp = "Units that this node owned in its latest round: streams, organizations, rules or incidents; of primary 1 on the primary."
)

// Active says whether this node takes work: the members know it, and have for a peer timeout.
func (w *Work) Active() bool { return w.m.settled() && w.m.View().isLive(w.role, w.m.Self()) }

// Mine says whether this node is to work on a unit now.
func (w *Work) Mine(unit string) bool { return w.mine(UnitKey(unit)) }

// Primary says whether this node is to run now what must run once in the cluster.
func (w *Work) Primary() bool { return w.mine(primaryKey) }

func (w *Work) mine(key Key) bool {
	owner, ok := w.m.View().Owner(w.role, key)
	return ok && owner.ID == w.m.Self() && w.Active()
}

// Owner is the node that a unit belongs to, warm or not.
func (w *Work) Owner(unit string) (millstream.Member, bool) {
	return w.m.View().Owner(w.role, UnitKey(unit))
}

// Share picks this node's units, all by one view.
func (w *Work) Share(units []string) []string {
	if !w.Active() {
		return nil
	}
	v := w.m.View()
	var mine []string
	for _, u := range units {
		if owner, ok := v.Owner(w.role, UnitKey(u)); ok && owner.ID == w.m.Self() {
			mine = append(mine, u)
		}
	}
	return mine
}

// Owned records how many units of a kind of work this node owned in its latest round.
func (w *Work) Owned(work string, n int) {
	of(w, w.owned, work, func() prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: ownedName, Help: ownedHelp, ConstLabels: prometheus.Labels{"work": work}})
	}).Set(float64(n))
}

// Skipped counts a unit that was left out because another node had run it in the same period.
func (w *Work) Skipped(work string) { w.skippedOf(work).Inc() }

func (w *Work) skippedOf(work string) prometheus.Counter {
	return of(w, w.skipped, work, func() prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "work_overlap_skipped_total", Help: "Units that another node had run in the same period, while members changed.", ConstLabels: prometheus.Labels{"work": work}})
	})
}

// of is the metric of a kind of work, registered when first asked for.
func of[T prometheus.Collector](w *Work, made map[string]T, work string, create func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := made[work]
	if !ok {
		c = create()
		w.reg.MustRegister(c)
		made[work] = c
	}
	return c
}
