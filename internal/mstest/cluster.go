package mstest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/app"
	"github.com/millstream/millstream/internal/netfault"
	"github.com/millstream/millstream/internal/postgres/pgtest"
)

// Cluster is nodes of split roles over one PostgreSQL and one object store.
type Cluster struct {
	Nodes []*Node // in the order in which they were named
	t     testing.TB
	dir   string
	env   []string // of every node
	o     ClusterOptions
	count map[string]int // nodes by name, for ids
}

// ClusterOptions say how a cluster's nodes run.
type ClusterOptions struct {
	// InProcess runs the nodes in the test's process, quickly and under its race detector, with intervals of milliseconds. Their kill is simulated: what they
	// do no longer reaches anybody. Else they are processes with the intervals of users.
	InProcess bool
	Pace      app.Pace // of nodes in this process; zeros are Quick
	Env       []string // more or other variables of every node
	Database  string   // a PostgreSQL of the test's own; empty: a new database of the shared one
	S3        *Gateway // the object store; nil: a directory
	Bare      bool     // the nodes are not started and nobody has signed in
}

// Quick are the intervals of nodes in a test's process.
var Quick = app.Pace{Heartbeat: time.Second, PeerTimeout: 8 * time.Second, View: 200 * time.Millisecond, Flush: time.Second}

// StartCluster starts a node for each list of roles, such as "router", "intake,querier" or "intake*3", and signs in through the first router.
func StartCluster(t testing.TB, o ClusterOptions, roles ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: directory(t), o: o, count: map[string]int{}}
	if c.o.Pace == (app.Pace{}) {
		c.o.Pace = Quick
	}
	if c.o.Database == "" {
		c.o.Database = pgtest.URL(t)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	c.env = []string{
		"MS_CIPHER_KEY=" + base64.StdEncoding.EncodeToString(key), "MS_CLUSTER_INTERNAL_TOKEN=the token of the test's cluster", "MS_DATABASE_MAX_CONNECTIONS=8",
		"MS_OBJECT_STORE_ROOT=" + filepath.Join(c.dir, "objects"), "MS_QUERIER_MEMORY_LIMIT=1GiB", "MS_ROUTER_RATE_LIMIT_INTAKE_QPS=0", "MS_ROUTER_RATE_LIMIT_QUERY_QPS=0",
	}
	if o.S3 != nil {
		c.env = append(c.env, o.S3.Env()...)
	}
	c.env = append(c.env, o.Env...)
	for _, r := range roles {
		r, times, _ := strings.Cut(r, "*")
		n, err := strconv.Atoi(times)
		if times == "" {
			n, err = 1, nil
		}
		if err != nil {
			t.Fatalf("%q is no number of nodes", times)
		}
		for range n {
			c.Add(strings.Split(r, ",")...)
		}
	}
	if !o.Bare {
		c.Start()
	}
	return c
}

// Start launches every node, those that routers send to first, waits until all are ready, and signs in.
func (c *Cluster) Start() {
	c.t.Helper()
	var first, last []*Node
	for _, n := range c.Nodes {
		if n.Has("router") {
			last = append(last, n)
		} else {
			first = append(first, n)
		}
	}
	for _, batch := range [][]*Node{first, last} {
		for _, n := range batch {
			n.Launch()
		}
		for _, n := range batch {
			n.Ready(time.Minute)
		}
	}
	if len(last) > 0 {
		last[0].signIn()
	}
	for _, n := range c.Nodes {
		n.Token = last[0].Token
	}
}

// Add makes one more node, which the caller launches.
func (c *Cluster) Add(roles ...string) *Node {
	c.t.Helper()
	name := strings.Join(roles, "-")
	c.count[name]++
	return c.AddAs(fmt.Sprintf("%s-%d", name, c.count[name]), roles...)
}

// AddAs is Add with an id that the caller chooses.
func (c *Cluster) AddAs(id string, roles ...string) *Node {
	c.t.Helper()
	rpc := FreeAddr(c.t)
	database, internal := netfault.NewLink(c.t, socketOf(c.t, c.o.Database)), netfault.NewLink(c.t, rpc)
	dir := filepath.Join(c.dir, fmt.Sprintf("%s.%d", id, len(c.Nodes)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	list := `["` + strings.Join(roles, `","`) + `"]`
	n := newNode(c.t, id, dir, append([]string{
		"MS_NODE_ROLES=" + list, "MS_RPC_LISTEN=" + rpc, "MS_CLUSTER_ADVERTISE_ADDR=" + internal.Addr, "MS_DATABASE_URL=" + through(c.t, c.o.Database, database),
	}, c.env...))
	n.Roles, n.Database, n.Internal = roles, database, internal
	if c.o.InProcess {
		n.launch = func() life {
			return startGoroutine(c.t, n.env, app.Options{Pace: c.o.Pace, MilliCPU: 1000 * n.CPUs, Now: clock(n.Ahead)}, n.log)
		}
	}
	if len(c.Nodes) > 0 {
		n.Token = c.Nodes[0].Token
	}
	c.Nodes = append(c.Nodes, n)
	return n
}

// Has says whether the node carries a role.
func (n *Node) Has(role string) bool { return slices.Contains(n.Roles, role) }

// Of are the nodes that carry a role.
func (c *Cluster) Of(role string) []*Node {
	var out []*Node
	for _, n := range c.Nodes {
		if n.Has(role) {
			out = append(out, n)
		}
	}
	return out
}

// Router is the first router, through which tests talk to the cluster.
func (c *Cluster) Router() *Node { return c.Of("router")[0] }

// EachDatabase breaks, or mends, the way of every node to the database.
func (c *Cluster) EachDatabase(f Fault) {
	for _, n := range c.Nodes {
		n.Database.Set(f)
	}
}

// Members waits until a router sees exactly these nodes as up.
func (c *Cluster) Members(through *Node, limit time.Duration, want ...*Node) {
	c.t.Helper()
	ids := make([]string, len(want))
	for i, n := range want {
		ids[i] = n.ID
	}
	slices.Sort(ids)
	WaitFor(c.t, limit, "the members are "+strings.Join(ids, ", "), func() bool { return slices.Equal(through.Up(), ids) })
}

// Up lists the ids of the nodes that a router says are up.
func (n *Node) Up() []string {
	var view struct{ Nodes []struct{ ID, State string } }
	n.JSON("GET", "/api/v1/cluster/nodes", n.Token, nil, &view)
	up := []string{}
	for _, m := range view.Nodes {
		if m.State == "up" {
			up = append(up, m.ID)
		}
	}
	slices.Sort(up)
	return up
}

// socketOf is what a link to a database connects to.
func socketOf(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	if dir := u.Query().Get("host"); dir != "" {
		return filepath.Join(dir, ".s.PGSQL."+u.Query().Get("port"))
	}
	return u.Host
}

// through is a database's URL by way of a link.
func through(t testing.TB, database string, l *Link) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if name := q.Get("user"); name != "" {
		u.User = url.User(name)
	}
	u.Host, u.RawQuery = l.Addr, "sslmode=disable"
	return u.String()
}

// shapes are the ways to run the product that must not differ to a client: each starts one and gives the node to talk to, whose Kill, Run and Stop are the whole
// cluster's.
var shapes = []struct {
	name  string
	start Starter
}{
	{"standalone", Start},
	{"split", func(t testing.TB, env ...string) *Node {
		c := StartCluster(t, ClusterOptions{Env: env}, "intake*2", "querier*2", "compactor,alert", "router")
		n := c.Router()
		n.others = slices.DeleteFunc(slices.Clone(c.Nodes), func(x *Node) bool { return x == n })
		return n
	}},
}

// Starter starts the product in one of its shapes.
type Starter func(t testing.TB, env ...string) *Node

// EachShape runs a test against a standalone node and against a cluster of split roles: a client must not find a difference.
func EachShape(t *testing.T, f func(t *testing.T, start Starter)) {
	t.Helper()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) { f(t, s.start) })
	}
}
