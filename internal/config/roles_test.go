package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shared is what nodes of split roles are told, beside their roles.
var shared = []string{
	"MS_DATABASE_URL=postgres://db/ms", "MS_OBJECT_STORE_ROOT=/srv/objects", "MS_CIPHER_KEY=c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IDAxMjM=", "MS_CLUSTER_INTERNAL_TOKEN=0123456789abcdef",
	"MS_SELF_TELEMETRY_CLUSTER_TOKEN=own telemetry",
}

func TestRoles(t *testing.T) {
	for in, want := range map[string][]string{
		`["standalone"]`: {Standalone}, `["standalone","standalone"]`: {Standalone}, `["querier","intake","querier"]`: {Intake, Querier},
		`["alert","compactor","querier","intake","router"]`: {Router, Intake, Querier, Compactor, Alert},
	} {
		c, err := Load("", append(shared, "MS_NODE_ROLES="+in))
		if err != nil || !slices.Equal(c.Node.Roles, want) {
			t.Errorf("%s: %v, %v", in, c.Node.Roles, err)
		}
		for _, r := range Roles {
			if has := c.Node.Alone() || slices.Contains(want, r); c.Node.Has(r) != has {
				t.Errorf("%s: has %s %t", in, r, !has)
			}
		}
	}
}

func TestSplitRolesNameWhatIsMissing(t *testing.T) {
	without := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(shared), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	}
	for name, c := range map[string]struct {
		environ []string
		want    []string // "" is the start of no error
	}{
		"all is there":        {append(shared, `MS_NODE_ROLES=["router"]`), nil},
		"nothing is there":    {[]string{`MS_NODE_ROLES=["router"]`}, []string{"[cipher].key: empty", "[cluster].internal_token: empty", "[database].url: empty", "[object_store].root: empty", "[self_telemetry].cluster_token: empty"}},
		"S3":                  {append(without("MS_OBJECT_STORE_ROOT"), `MS_NODE_ROLES=["router"]`, "MS_OBJECT_STORE_BACKEND=s3", "MS_OBJECT_STORE_BUCKET=b"), nil},
		"trusted network":     {append(without("MS_CLUSTER_INTERNAL_TOKEN"), `MS_NODE_ROLES=["router"]`, "MS_CLUSTER_TRUSTED_NETWORK=true"), nil},
		"short token":         {append(shared, `MS_NODE_ROLES=["router"]`, "MS_CLUSTER_INTERNAL_TOKEN=short"), []string{"[cluster].internal_token: shorter"}},
		"own telemetry":       {append(without("MS_SELF_TELEMETRY_CLUSTER_TOKEN"), `MS_NODE_ROLES=["intake"]`), nil},
		"no own telemetry":    {append(without("MS_SELF_TELEMETRY_CLUSTER_TOKEN"), `MS_NODE_ROLES=["alert"]`, "MS_TELEMETRY_SELF_COLLECT=false"), nil},
		"no such role":        {append(shared, `MS_NODE_ROLES=["qerier","standby"]`), []string{`[node].roles: "qerier" is not a role (did you mean querier?)`, `[node].roles: "standby" is not a role;`}},
		"standalone and more": {append(shared, `MS_NODE_ROLES=["router","standalone"]`), []string{"[node].roles: standalone is every role already"}},
		"no role":             {append(shared, "MS_NODE_ROLES=[]"), []string{"[node].roles: empty"}},
		"every interface":     {append(shared, `MS_NODE_ROLES=["router"]`, "MS_CLUSTER_ADVERTISE_ADDR=0.0.0.0:5082"), []string{`[cluster].advertise_addr: "0.0.0.0:5082"`}},
		"any port":            {append(shared, `MS_NODE_ROLES=["router"]`, "MS_RPC_LISTEN=127.0.0.1:0"), []string{`[cluster].advertise_addr: "127.0.0.1:0"`}},
		"no address":          {append(shared, `MS_NODE_ROLES=["router"]`, "MS_RPC_LISTEN=5082"), []string{`[rpc].listen: "5082"`}},
		"quick to give up":    {[]string{"MS_CLUSTER_PEER_TIMEOUT_SECS=5"}, []string{"[cluster].peer_timeout_secs: 5; more than"}},
		"rate":                {[]string{"MS_ROUTER_RATE_LIMIT_INTAKE_QPS=-1", "MS_ROUTER_RATE_LIMIT_BURST_MULTIPLIER=0"}, []string{"[router.rate_limit].burst_multiplier: 0", "[router.rate_limit].intake_qps: -1"}},
	} {
		_, err := Load("", c.environ)
		var got []string
		if err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAdvertisedAddress(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for listen, want := range map[string]string{":5082": host + ":5082", "0.0.0.0:1": host + ":1", "[::]:1": host + ":1", "10.0.0.7:5082": "10.0.0.7:5082", "node.example:9": "node.example:9"} {
		if c, err := Load("", []string{"MS_RPC_LISTEN=" + listen}); err != nil || c.Cluster.AdvertiseAddr != want {
			t.Errorf("%s is advertised as %q, %v; want %s", listen, c.Cluster.AdvertiseAddr, err, want)
		}
	}
}

func TestSectionsInSections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ms.toml")
	write(t, file, "[router.rate_limit]\nintake_qps = 7\nquery_qqs = 3\n[router.rates]\nx = 1\n")
	c, err := Load(file, []string{"MS_ROUTER_RATE_LIMIT_QUERY_QPS=9"})
	if c.Router.RateLimit.IntakeQPS != 7 || c.Router.RateLimit.QueryQPS != 9 {
		t.Errorf("%+v", c.Router)
	}
	for _, want := range []string{"router.rate_limit.query_qqs (did you mean router.rate_limit.query_qps?)", "unknown setting router.rates"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	for _, e := range InForce(&c, file, nil) {
		if e.Name == "[router.rate_limit].intake_qps" && (e.Source != "file" || e.Value != "7" || e.Env != "MS_ROUTER_RATE_LIMIT_INTAKE_QPS") {
			t.Errorf("%+v", e)
		}
	}
}
