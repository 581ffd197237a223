package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/millstream/millstream"
)

// gateway starts a real S3 server over a directory and returns its URL.
func gateway(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("versitygw")
	if err != nil {
		if bin, err = filepath.Abs("../.cache/bin/versitygw"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(bin); err != nil {
			t.Fatalf("the S3 server of the tests is missing: run make test, which builds it (%v)", err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	must(t, l.Close())
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "objects"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "sidecar"), 0o700))
	cmd := exec.Command(bin, "--port", addr, "--quiet", "posix", "--sidecar", filepath.Join(dir, "sidecar"), filepath.Join(dir, "objects"))
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=testsecret")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the S3 server does not listen: %s", out.String())
		}
	}
	return "http://" + addr
}

func testConfig(endpoint string) S3Config {
	return S3Config{Bucket: "test", Region: "us-east-1", Endpoint: endpoint, PathStyle: true, AccessKey: "test", SecretKey: "testsecret", MultipartThreshold: 5 << 20, MaxConcurrency: 8, OpTimeout: 5 * time.Second}
}

func openS3(t *testing.T, c S3Config) *S3 {
	t.Helper()
	b, err := NewS3(context.Background(), c)
	must(t, err)
	return b
}

func TestS3(t *testing.T) {
	ctx := context.Background()
	endpoint := gateway(t)
	b := openS3(t, testConfig(endpoint))
	_, err := b.client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b.cfg.Bucket})
	must(t, err)
	Conformance(t, b)

	t.Run("objects over the threshold go up in parts", func(t *testing.T) {
		body := make([]byte, 40<<20)
		_, _ = rand.Read(body)
		must(t, b.Put(ctx, "big", bytes.NewReader(body), int64(len(body))))
		if got := read(t, b, "big", 0, -1); got != string(body) {
			t.Error("the object differs")
		}
		if got := read(t, b, "big", partSize-3, 6); got != string(body[partSize-3:partSize+3]) {
			t.Error("a range over a part boundary differs")
		}
		if err := b.Put(ctx, "big", bytes.NewReader(body), int64(len(body))); millstream.KindOf(err) != millstream.Conflict {
			t.Errorf("a second upload in parts: %v", err)
		}
	})
	t.Run("wrong keys are refused", func(t *testing.T) {
		c := testConfig(endpoint)
		c.SecretKey = "wrong"
		if _, err := openS3(t, c).Stat(ctx, "big"); millstream.KindOf(err) != millstream.Unavailable {
			t.Errorf("%v", err)
		}
	})
	t.Run("a missing bucket is no missing object", func(t *testing.T) {
		c := testConfig(endpoint)
		c.Bucket = "absent"
		absent := openS3(t, c)
		_, err := absent.Get(ctx, "big", 0, 1)
		for _, err := range []error{err, absent.Put(ctx, "small", strings.NewReader("x"), 1)} {
			if millstream.KindOf(err) != millstream.Unavailable || !strings.Contains(err.Error(), "[object_store].bucket") {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("faults on the wire", func(t *testing.T) { wireFaults(t, endpoint) })
}

// wireFaults puts a proxy between client and server that loses replies, cuts bodies and answers 503.
func wireFaults(t *testing.T, endpoint string) {
	ctx := context.Background()
	target, err := url.Parse(endpoint)
	must(t, err)
	var lose, refuse, cut atomic.Int32
	take := func(n *atomic.Int32) bool { return n.Add(-1) >= 0 }
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Director = func(r *http.Request) { r.URL.Scheme, r.URL.Host = target.Scheme, target.Host } // Host stays: it is signed
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case take(&refuse):
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodPut && take(&lose):
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case r.Method == http.MethodGet && take(&cut):
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("01234"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	b := openS3(t, testConfig(srv.URL))

	lose.Store(1)
	must(t, b.Put(ctx, "wire/lost", bytes.NewReader([]byte("0123456789")), 10))
	lose.Store(1)
	etag, err := b.Swap(ctx, "wire/swap", []byte("1"), "")
	must(t, err)
	lose.Store(1)
	if _, err = b.Swap(ctx, "wire/swap", []byte("2"), etag); err != nil {
		t.Errorf("a swap whose reply was lost: %v", err)
	}
	refuse.Store(2)
	if got := read(t, b, "wire/lost", 0, -1); got != "0123456789" {
		t.Errorf("after two 503: %q", got)
	}
	wrongRanges(t, endpoint)
	cut.Store(1)
	r, err := b.Get(ctx, "wire/lost", 0, -1)
	must(t, err)
	if p, err := io.ReadAll(r); err == nil {
		t.Errorf("a cut body was read as %q without an error", p)
	}
	must(t, r.Close())
	srv.Close()
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := b.Stat(short, "wire/lost"); err == nil {
		t.Error("no server, no error")
	}
}

// wrongRanges puts a proxy before the object wire/lost, of the bytes 0123456789, that answers ranges wrongly, a given number of times: an answer that says what it is,
// or is too short or too long, is asked for again, and never taken for what was asked for.
func wrongRanges(t *testing.T, endpoint string) {
	target, err := url.Parse(endpoint)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Director = func(r *http.Request) { r.URL.Scheme, r.URL.Host = target.Scheme, target.Host } // Host stays: it is signed
	for name, c := range map[string]struct {
		off, n int64
		header string // Content-Range of the wrong answer
		body   string
		status int
	}{
		"the whole object":     {2, 4, "", "0123456789", 200},
		"without its range":    {2, 4, "", "0123", 206},
		"shifted":              {2, 4, "bytes 3-6/10", "3456", 206},
		"shifted, of its size": {2, 4, "bytes 0-3/10", "0123", 206},
		"short":                {2, 4, "bytes 2-4/10", "234", 206},
		"long":                 {2, 4, "bytes 2-6/10", "23456", 206},
		"another length":       {2, 4, "bytes 2-5/10", "234", 206},
		"nonsense":             {2, 4, "bytes x", "2345", 206},
		"to the end, short":    {2, -1, "bytes 2-5/10", "2345", 206},
		"to the end, whole":    {2, -1, "", "0123456789", 200},
	} {
		t.Run(name, func(t *testing.T) {
			var wrong, asked atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if wrong.Add(-1) < 0 {
					proxy.ServeHTTP(w, r)
					return
				}
				if c.header != "" {
					w.Header().Set("Content-Range", c.header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer srv.Close()
			b := openS3(t, testConfig(srv.URL))
			want := "0123456789"[c.off:]
			if c.n > 0 {
				want = want[:c.n]
			}
			wrong.Store(2)
			if got := read(t, b, "wire/lost", c.off, c.n); got != want || asked.Load() != 3 {
				t.Errorf("after %d requests %q, want %q after two wrong answers", asked.Load(), got, want)
			}
			wrong.Store(1000)
			if got, err := get(b, "wire/lost", c.off, c.n); millstream.KindOf(err) != millstream.Unavailable {
				t.Errorf("%q, error %v, want that the store is not available", got, err)
			}
		})
	}
}

func TestFaultyInjectsWhatItSays(t *testing.T) {
	ctx := context.Background()
	inner := NewMemory()
	f := NewFaulty(inner, 7, Faults{LostReply: 1})
	if err := f.Put(ctx, "a", bytes.NewReader([]byte("x")), 1); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("lost reply: %v", err)
	}
	if _, err := inner.Stat(ctx, "a"); err != nil {
		t.Errorf("the object of the lost reply is not stored: %v", err)
	}
	f.SetFaults(Faults{Truncate: 1})
	if _, err := get(f, "a", 0, -1); err == nil {
		must(t, inner.Put(ctx, "long", bytes.NewReader(make([]byte, 4096)), 4096))
		if _, err := get(f, "long", 0, 4096); err == nil {
			t.Error("a truncated body gave no error")
		}
	}
	f.SetFaults(Faults{})
	f.SetDown(true)
	if _, err := f.Get(ctx, "a", 0, -1); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("down: %v", err)
	}
	f.SetDown(false)
	if got := read(t, f, "a", 0, -1); got != "x" {
		t.Errorf("%q", got)
	}
	if f.Injected.Load() == 0 {
		t.Error("no fault was counted")
	}
}
