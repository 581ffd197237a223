package config

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// The roles of a node, in the order in which they are listed.
const (
	Standalone = "standalone" // every role in one process
	Router     = "router"
	Intake     = "intake"
	Querier    = "querier"
	Compactor  = "compactor"
	Alert      = "alert"
)

// Roles are all that [node].roles may name.
var Roles = []string{Standalone, Router, Intake, Querier, Compactor, Alert}

// Has says whether the node carries a role; a standalone one carries each.
func (n *Node) Has(role string) bool { return n.Alone() || slices.Contains(n.Roles, role) }

// Alone says whether the node is every role in one process.
func (n *Node) Alone() bool { return slices.Contains(n.Roles, Standalone) }

// normalRoles drops duplicates and puts the roles in order; those that do not exist stay last, to be complained of.
func normalRoles(roles []string) []string {
	at := func(role string) int {
		if i := slices.Index(Roles, role); i >= 0 {
			return i
		}
		return len(Roles)
	}
	out := slices.Clone(roles)
	slices.SortStableFunc(out, func(a, b string) int {
		if d := at(a) - at(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return slices.Compact(out)
}

// checkRoles reports what is wrong with the roles, and what nodes of split roles must be told because they share it.
func (c *Config) checkRoles(bad func(ok bool, key, format string, args ...any)) {
	const key = "[node].roles"
	bad(len(c.Node.Roles) > 0, key, "empty; name one or more of %s", strings.Join(Roles, ", "))
	for _, r := range c.Node.Roles {
		bad(slices.Contains(Roles, r), key, "%q is not a role%s; use one or more of %s", r, hint(r, Roles), strings.Join(Roles, ", "))
	}
	bad(!c.Node.Alone() || len(c.Node.Roles) == 1, key, "standalone is every role already: name it alone, or only the others")
	if c.Node.Alone() || len(c.Node.Roles) == 0 {
		return
	}
	const shared = "empty; nodes of split roles share one"
	bad(c.Database.URL != "", "[database].url", shared+" PostgreSQL: set postgres://user:password@host/database, the same on every node (only a standalone node starts a server of its own)")
	bad(c.Cipher.Key != "", "[cipher].key", shared+": make it with `openssl rand -base64 32` and give it to every node (only a standalone node makes its own)")
	bad(c.ObjectStore.Backend != "local" || c.ObjectStore.Root != "", "[object_store].root", shared+" object store: set it to a directory that every node sees, or use the s3 backend")
	bad(c.Cluster.InternalToken != "" || c.Cluster.TrustedNetwork, "[cluster].internal_token", shared+" by which they know each other: make it with `openssl rand -hex 32` and give it to every node, or set [cluster].trusted_network = true if none but the nodes can reach [rpc].listen")
	bad(!c.Telemetry.SelfCollect || c.Node.Has(Intake) || c.SelfTelemetry.ClusterToken != "", "[self_telemetry].cluster_token", "empty; a node without the intake role sends its own telemetry to one that has it and needs this token: set it, or [telemetry].self_collect = false")
}

// advertised is the address at which peers reach a listener: an address that means every interface is replaced by the host's name.
func advertised(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("[rpc].listen: %q is not an address: write :5082 or 10.0.0.1:5082", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("[cluster].advertise_addr is empty and the host name is unknown: %w", err)
		}
	}
	return net.JoinHostPort(host, port), nil
}

// reachable says whether peers can dial an address.
func reachable(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && host != "" && port != "" && port != "0" && (ip == nil || !ip.IsUnspecified())
}
