package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/reference.md")

func TestReferenceIsInStep(t *testing.T) {
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	file := "../../docs/reference.md"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Error("docs/reference.md is not what the struct says: go test ./internal/config -update")
	}
}

func TestVariablesAreUniqueAndSafeOnKubernetes(t *testing.T) {
	c := Default()
	seen := map[string]string{}
	for _, s := range Settings(&c) {
		if other, ok := seen[s.Env]; ok {
			t.Errorf("%s and %s share %s", s.Name(), other, s.Env)
		}
		seen[s.Env] = s.Name()
		if strings.HasSuffix(s.Key, "port") || fromKubernetes(s.Env) {
			t.Errorf("%s could be set by Kubernetes", s.Env)
		}
		if s.Doc == "" {
			t.Errorf("%s has no documentation", s.Name())
		}
	}
}

func TestLoadLayersFileAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ms.toml")
	write(t, file, "[node]\nid = \"one\"\ndata_dir = \""+dir+"\"\n[intake]\nmax_record = \"2 MiB\"\n[http]\ntrusted_proxies = [\"10.0.0.0/8\"]\n")
	secret := filepath.Join(dir, "secret")
	write(t, secret, strings.Repeat("s", 32)+"\n")
	c, err := Load(file, []string{"MS_NODE_ID=two", "MS_AUTH_JWT_SECRET_OVERRIDE_FILE=" + secret, "MS_ROUTER_PORT=tcp://10.0.0.1:80", "MS_X_SERVICE_HOST=1", "MS_ROUTER_PORT_80_TCP=x", "PATH=/bin",
		`MS_HTTP_FRAME_ANCESTORS=["https://a.example","https://b.example"]`, "MS_WAL_SEGMENT_SIZE=1048576", "MS_TELEMETRY_SELF_COLLECT=false"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.ID != "two" || c.Intake.MaxRecord != 2<<20 || c.Auth.JWTSecretOverride != strings.Repeat("s", 32) || c.WAL.SegmentSize != 1<<20 || c.Telemetry.SelfCollect {
		t.Errorf("%+v", c)
	}
	if !slices.Equal(c.HTTP.FrameAncestors, []string{"https://a.example", "https://b.example"}) || !slices.Equal(c.HTTP.TrustedProxies, []string{"10.0.0.0/8"}) {
		t.Errorf("%+v", c.HTTP)
	}
	if c.WAL.Dir != filepath.Join(dir, "wal") {
		t.Errorf("wal dir %s", c.WAL.Dir)
	}
}

func TestLoadNamesEverythingThatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ms.toml")
	write(t, file, "[node]\nidd = \"x\"\n[nodes]\nid = \"y\"\n[wal]\nsinc = \"none\"\n")
	_, err := Load(file, []string{"MS_NODE_ROLS=[]", "MS.NODE.ID=x", "MS_WAL_MAX_DISK=much"})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"node.idd (did you mean node.id?)", "nodes.id", "wal.sinc (did you mean wal.sync?)", "MS_NODE_ROLS (did you mean MS_NODE_ROLES?)", `MS_WAL_MAX_DISK: "much" is not a size`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestValidateNamesTheSettingAndTheBound(t *testing.T) {
	c := Default()
	c.WAL.Sync, c.Intake.MaxFields, c.ObjectStore.Backend, c.Querier.MemoryLimit, c.Querier.Threads = "sometimes", 0, "tape", 1<<30, 1
	errs := c.Validate()
	var all []string
	for _, e := range errs {
		all = append(all, e.Error())
	}
	for _, want := range []string{"[wal].sync", "[intake].max_fields", "[object_store].backend"} {
		if !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%s is not in %v", want, all)
		}
	}
	if len(errs) != 3 {
		t.Errorf("%d errors: %v", len(errs), all)
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[string]Size{"0": 0, "17": 17, "1 KiB": 1024, "16GiB": 16 << 30, "10 GB": 10e9, " 5 mib ": 5 << 20} {
		var s Size
		if err := s.UnmarshalText([]byte(in)); err != nil || s != want {
			t.Errorf("%q = %d, %v; want %d", in, s, err, want)
		}
	}
	for _, in := range []string{"", "x", "-1", "1 XB", "9999999999 TiB", "1.5 GiB"} {
		var s Size
		if s.UnmarshalText([]byte(in)) == nil {
			t.Errorf("%q was accepted as %d", in, s)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
