package mstest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Gateway is a real S3 server that can be killed and started again.
type Gateway struct {
	URL  string
	t    testing.TB
	dir  string
	addr string
	cmd  *exec.Cmd
}

// NewGateway starts an S3 server with the bucket test, until the test's end.
func NewGateway(t testing.TB) *Gateway {
	t.Helper()
	g := &Gateway{t: t, dir: t.TempDir(), addr: FreeAddr(t)}
	g.URL = "http://" + g.addr
	for _, dir := range []string{filepath.Join("objects", "test"), "sidecar"} { // a directory is a bucket
		if err := os.MkdirAll(filepath.Join(g.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.Start()
	t.Cleanup(g.Kill)
	return g
}

// Env are a node's settings for this object store.
func (g *Gateway) Env() []string {
	return []string{
		"MS_OBJECT_STORE_BACKEND=s3", "MS_OBJECT_STORE_BUCKET=test", "MS_OBJECT_STORE_ENDPOINT=" + g.URL, "MS_OBJECT_STORE_PATH_STYLE=true",
		"MS_OBJECT_STORE_ACCESS_KEY=test", "MS_OBJECT_STORE_SECRET_KEY=testsecret", "MS_OBJECT_STORE_OP_TIMEOUT_SECS=2",
	}
}

// Start starts the server again.
func (g *Gateway) Start() {
	g.t.Helper()
	g.cmd = exec.Command(Tool(g.t, "versitygw"), "--port", g.addr, "--quiet", "posix", "--sidecar", filepath.Join(g.dir, "sidecar"), filepath.Join(g.dir, "objects"))
	g.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=testsecret")
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	WaitFor(g.t, time.Minute, "the S3 server listens", func() bool {
		c, err := net.Dial("tcp", g.addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// Kill ends the server as kill -9 does.
func (g *Gateway) Kill() { _ = g.cmd.Process.Kill(); _ = g.cmd.Wait() }
