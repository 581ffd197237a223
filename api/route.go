package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/millstream/millstream/internal/auth"
)

// route is one line of the API: where it is, who may call it, what runs, and how it is described.
type route struct {
	method  string
	path    string // below the base path
	policy  policy
	at      place
	endless bool // its reply ends by nothing but the client's or the node's end
	handle  handler
	doc     operation
	shape   errorShape // nil: the API's own; routes that imitate another product answer in that product's shape

	meters *meters // set when the route is registered
}

// place says which nodes can answer a route.
type place uint8

const (
	anywhere  place = iota // every node that serves the API
	onQuerier              // it takes a query engine: a node without one has a querier answer
	onEach                 // every querier has a part of the answer: the handler asks the others for theirs
)

// policy says who may call a route and how it is counted. The zero policy allows nobody and is refused at start.
type policy struct {
	public  bool
	known   bool       // any valid credential
	scope   auth.Scope // what an API token must carry
	role    auth.Role  // the least rank
	whole   bool       // the rank counts in the organization that looks after the installation
	rate    string     // rate class: rateIntake, rateQuery or none
	action  string     // what a mutating call is called in the audit log
	asks    bool       // it changes nothing, whatever its method says
	timeout time.Duration
}

// The rate classes.
const (
	rateIntake = "intake"
	rateQuery  = "query"
)

// defaultTimeout ends requests of routes that state no limit of their own.
const defaultTimeout = 30 * time.Second

// public is open to everybody. Anything that can be guessed there must be throttled by the handler.
func public() policy { return policy{public: true} }

// known is open to every valid credential, whatever its scopes and role; it must show and change nothing but the caller's own.
func known() policy { return policy{known: true} }

// need asks for a credential with a scope and a least role.
func need(scope auth.Scope, role auth.Role) policy { return policy{scope: scope, role: role} }

// administer asks for somebody who looks after the installation as a whole, with a least role in its organization.
func administer(role auth.Role) policy {
	return policy{scope: auth.Administer, role: role, whole: true}
}

// intake is the policy of all that takes telemetry: an intake token, or a session that may write.
func intake() policy { return policy{scope: auth.Intake, role: auth.Editor, rate: rateIntake} }

// readTelemetry is the policy of all that reads telemetry. The time limit is the engine's.
func readTelemetry() policy {
	return policy{scope: auth.Query, role: auth.Viewer, rate: rateQuery, timeout: -1}
}

// audited names the change a route makes.
func (p policy) audited(action string) policy { p.action = action; return p }

// asking says that a route only asks, though its question comes by POST.
func (p policy) asking() policy { p.asks = true; return p }

// allows says whether the principal may call the route.
func (p policy) allows(who *auth.Principal) bool {
	switch {
	case p.known:
		return true
	case p.whole:
		return who.MayAdminister(p.role)
	}
	return who.May(p.scope, p.role)
}

// check refuses a route that would be served by omission: without a policy, or changing something without a name for it in the audit log.
func (rt *route) check() error {
	p := rt.policy
	if !p.public && !p.known && (p.scope == 0 || p.role == auth.NoRole) {
		return fmt.Errorf("route %s %s has no policy", rt.method, rt.path)
	}
	if rt.mutates() && p.action == "" && p.rate == "" && !p.asks {
		return fmt.Errorf("route %s %s changes something and has no audit action", rt.method, rt.path)
	}
	return nil
}

func (rt *route) mutates() bool {
	return rt.method != http.MethodGet && rt.method != http.MethodHead && rt.method != http.MethodOptions
}
