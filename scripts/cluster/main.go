// Command cluster starts a small cluster of split roles on this machine for people to play with: make cluster. It is a supervisor as systemd or Kubernetes would be
// one: a node that ends, killed or drained, is started again after a while.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millstream/millstream/internal/postgres"
)

const (
	email    = "dev@localhost.test"
	password = "millstream-dev"
	pause    = 10 * time.Second // before a node that ended is started again
	ready    = time.Minute
)

// nodes are started in this order and ended in the reverse of it.
var nodes = []struct{ id, role string }{
	{"intake-1", "intake"}, {"intake-2", "intake"}, {"querier-1", "querier"}, {"querier-2", "querier"}, {"compactor-1", "compactor"}, {"alert-1", "alert"}, {"router-1", "router"},
}

func main() {
	binary := flag.String("binary", "bin/millstream", "the product")
	dir := flag.String("dir", "data/cluster", "directory of everything")
	port := flag.Int("port", 5080, "of the API and pages; the other listeners get the 40 after it and after 4317 and 5100")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *dir, *port); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, dir string, port int) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	server, err := postgres.Start(ctx, postgres.Options{DataDir: filepath.Join(dir, "postgres"), MaxConnections: 200})
	if err != nil {
		return err
	}
	defer func() {
		if err := server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "cluster: stop PostgreSQL:", err)
		}
	}()
	env, err := shared(dir, server.URL())
	if err != nil {
		return err
	}
	all := make([]*member, len(nodes))
	for i, n := range nodes {
		all[i] = &member{id: n.id, binary: binary, log: filepath.Join(dir, n.id+".log"), health: fmt.Sprintf("http://127.0.0.1:%d", httpPort(port, i))}
		all[i].env = append(slices.Clip(env), "MS_NODE_ID="+n.id, fmt.Sprintf("MS_NODE_ROLES=[%q]", n.role), "MS_NODE_DATA_DIR="+filepath.Join(dir, n.id),
			fmt.Sprintf("MS_HTTP_LISTEN=127.0.0.1:%d", httpPort(port, i)), fmt.Sprintf("MS_RPC_LISTEN=127.0.0.1:%d", 5100+port-5080+i), fmt.Sprintf("MS_OTLP_LISTEN=127.0.0.1:%d", otlpPort(port, i)))
	}
	token, err := all[len(all)-1].telemetryToken(ctx, filepath.Join(dir, "self-telemetry.token"))
	if err != nil {
		return err
	}
	for _, m := range all {
		m.env = append(m.env, "MS_SELF_TELEMETRY_CLUSTER_TOKEN="+token)
		m.start(ctx)
	}
	defer func() {
		for i := len(all) - 1; i >= 0; i-- {
			all[i].end()
		}
	}()
	for _, m := range all {
		if err := m.ready(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("\nThe cluster runs. Sign in at http://localhost:%d/ as %s with the password %s.\nOTLP gRPC: localhost:%d. Ctrl-C ends it; %s keeps what it has.\n\n", port, email, password, otlpPort(port, len(nodes)-1), dir)
	for _, m := range all {
		fmt.Printf("  %-12s pid %-8d %s/api/v1/readyz  log %s\n", m.id, m.pid(), m.health, m.log)
	}
	fmt.Printf("\nKill one (kill -9 PID) or drain one: the others take over, and it is started again %s later.\n", pause)
	<-ctx.Done()
	fmt.Println("\nending")
	return nil
}

// httpPort is a node's; the router, the last, has the one that was asked for.
func httpPort(port, i int) int { return port + len(nodes) - 1 - i }

func otlpPort(port, i int) int { return 4317 + port - 5080 + len(nodes) - 1 - i }

// shared are the settings that all nodes have in common. The secrets are made once and kept.
func shared(dir, database string) ([]string, error) {
	key, err := secret(filepath.Join(dir, "cipher.key"))
	if err != nil {
		return nil, err
	}
	token, err := secret(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}
	return append(os.Environ(),
		"MS_DATABASE_URL="+database, "MS_DATABASE_MAX_CONNECTIONS=8", "MS_OBJECT_STORE_ROOT="+filepath.Join(dir, "objects"),
		"MS_CIPHER_KEY="+key, "MS_CLUSTER_INTERNAL_TOKEN="+token, "MS_AUTH_ROOT_EMAIL="+email, "MS_AUTH_ROOT_PASSWORD="+password,
		"MS_QUERIER_MEMORY_LIMIT=1GiB"), nil
}

// secret reads 32 random bytes in base64 from a file, which it makes if there is none.
func secret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		raw := make([]byte, 32)
		_, _ = rand.Read(raw) // never fails
		b = []byte(base64.StdEncoding.EncodeToString(raw))
		err = os.WriteFile(file, b, 0o600)
	}
	return strings.TrimSpace(string(b)), err
}

// telemetryToken is the API token with which nodes without intake send their own telemetry. The first time there is none, and only a cluster can make one: so the
// router runs alone for that.
func (m *member) telemetryToken(ctx context.Context, file string) (string, error) {
	kept, err := os.ReadFile(file)
	if !os.IsNotExist(err) {
		return strings.TrimSpace(string(kept)), err
	}
	router := &member{id: m.id, binary: m.binary, log: m.log, health: m.health, env: append(slices.Clip(m.env), "MS_TELEMETRY_SELF_COLLECT=false")}
	router.start(ctx)
	defer router.end()
	if err := router.ready(ctx); err != nil {
		return "", err
	}
	session, err := router.token(ctx, "login", "", map[string]any{"email": email, "password": password})
	if err != nil {
		return "", err
	}
	token, err := router.token(ctx, "tokens", session, map[string]any{"name": "telemetry of the nodes", "scopes": []string{"intake"}})
	if err != nil {
		return "", err
	}
	return token, os.WriteFile(file, []byte(token), 0o600)
}

// token is that of the reply to a POST below /api/v1/auth.
func (m *member) token(ctx context.Context, call, credential string, body any) (string, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.health+"/api/v1/auth/"+call, bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var reply struct{ Token string }
	if err := json.Unmarshal(text, &reply); err != nil || reply.Token == "" {
		return "", fmt.Errorf("%s of %s answers %s: %s", call, m.id, resp.Status, text)
	}
	return reply.Token, nil
}

// member is a node, which is started again whenever it has ended.
type member struct {
	id, binary, log, health string
	env                     []string

	wg   sync.WaitGroup
	stop context.CancelFunc
	mu   sync.Mutex
	cmd  *exec.Cmd // the running one; nil between two
}

func (m *member) start(ctx context.Context) {
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.wg.Go(func() {
		for ctx.Err() == nil {
			err := m.life(ctx)
			if ctx.Err() != nil {
				return
			}
			fmt.Printf("%s ended (%v); it is started again in %s\n", m.id, err, pause)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

// life runs the process until it ends, which the end of ctx asks it to do.
func (m *member) life(ctx context.Context) error {
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, m.binary, "serve")
	cmd.Env, cmd.Stdout, cmd.Stderr = m.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C reaches this process alone, which ends the nodes in order
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		return err
	}
	m.set(cmd)
	defer m.set(nil)
	return cmd.Wait()
}

func (m *member) set(cmd *exec.Cmd) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cmd = cmd
}

// pid is the running process's; 0 between two.
func (m *member) pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return 0
	}
	return m.cmd.Process.Pid
}

func (m *member) end() {
	m.stop()
	m.wg.Wait()
}

// ready waits until the node says that it is.
func (m *member) ready(ctx context.Context) error {
	for deadline := time.Now().Add(ready); time.Now().Before(deadline); {
		resp, err := http.Get(m.health + "/api/v1/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s is not ready after %s: see %s", m.id, ready, m.log)
}
