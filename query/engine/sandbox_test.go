package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/millstream/millstream"
)

// TestLocked: even if a statement passed the gate, the instance can reach nothing but the job's files and cannot be changed.
func TestLocked(t *testing.T) {
	p := newPool(t, nil)
	files := writeFiles(t, 2)
	other := table(files[1])
	secret := filepath.Join(t.TempDir(), "secret.csv")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"SELECT * FROM read_csv('%s')", "SELECT * FROM read_text('%s')", "SELECT * FROM read_blob('%s')", "SELECT * FROM '%s'", "SELECT * FROM glob('/*')",
		"SELECT * FROM read_parquet('" + files[0] + "')", "SELECT * FROM parquet_metadata('" + files[0] + "')", "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
		"SELECT * FROM read_parquet('s3://bucket/x')", "SELECT * FROM read_text('" + filepath.Dir(files[1]) + "/./../*')", "COPY (SELECT 1) TO '%s'", "EXPORT DATABASE '%s'",
		"ATTACH '%s' AS x", "INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true", "SET lock_configuration = false", "SET memory_limit = '100GB'", "RESET threads",
		"PRAGMA threads = 8", "SET allowed_paths = ['/']", "CREATE SECRET (TYPE s3)", "CREATE TABLE x AS SELECT 1", "DROP VIEW t0", "CALL enable_logging()", "ATTACH ':memory:' AS x",
		"SELECT 1; SELECT 2",
	} {
		if strings.Contains(sql, "%s") {
			sql = fmt.Sprintf(sql, secret)
		}
		got, _, err := answer(t, p, Job{SQL: sql, Tables: []Table{other}})
		if err == nil || strings.Contains(err.Error(), "engine failed") {
			t.Errorf("%s: %.200s, %v", sql, got, err)
		}
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "secret\n" {
		t.Errorf("the file is now %q, %v", content, err)
	}
}

// TestChildIsBare: a child has no environment, no descriptors of ours, and can gain no privileges.
func TestChildIsBare(t *testing.T) {
	t.Setenv("MS_SECRET", "secret")
	p := newPool(t, nil)
	if _, _, err := answer(t, p, Job{SQL: "SELECT 1 AS x"}); err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d/", p.idle[0].cmd.Process.Pid)
	if env, err := os.ReadFile(proc + "environ"); err != nil || len(env) > 0 {
		t.Errorf("environment %q, %v", env, err)
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Errorf("no_new_privs is not set: %v", err)
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(proc + "fd/" + fd.Name())
		if err != nil {
			continue // it has been closed since
		}
		own := to == "/dev/null" || strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/proc/") ||
			strings.HasPrefix(to, "/sys/")
		if !own {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
	if len(fds) > 12 {
		t.Errorf("%d descriptors", len(fds))
	}
}

// TestSpillStaysPrivate: what a job spills is in the child's directory and gone afterwards.
func TestSpillStaysPrivate(t *testing.T) {
	p := newPool(t, func(o *Options) { o.Memory = 64 << 20 })
	stats, err := p.Run(t.Context(), Job{SQL: "SELECT x, hash(x)::VARCHAR AS s FROM range(3000000) r(x) ORDER BY hash(x) OFFSET 2999990"}, func(arrow.RecordBatch) error { return nil })
	if err != nil && millstream.KindOf(err) != millstream.Unprocessable {
		t.Errorf("%+v, %v", stats, err)
	}
	left, err := filepath.Glob(filepath.Join(p.o.Dir, "child-*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// BenchmarkRun is a trivial query through a child: its wall time, and the CPU time of the child.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			p := newPool(b, nil)
			job := Job{SQL: "SELECT service, count(*) AS n FROM t0 GROUP BY service", Tables: []Table{table(writeFiles(b, n)...)}, MaxRows: 1000}
			var cpu time.Duration
			emit := func(arrow.RecordBatch) error { return nil }
			if _, err := p.Run(b.Context(), job, emit); err != nil { // starts the child
				b.Fatal(err)
			}
			for b.Loop() {
				stats, err := p.Run(b.Context(), job, emit)
				if err != nil {
					b.Fatal(err)
				}
				cpu += stats.CPU
			}
			b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "child-cpu-ms/op")
			b.ReportMetric(float64(p.idle[0].resident())/(1<<20), "child-MiB")
		})
	}
}

// BenchmarkRows is the cost of an answer's rows: eight columns, through the socket.
func BenchmarkRows(b *testing.B) {
	p := newPool(b, nil)
	job := Job{SQL: "SELECT x, x + 1 AS a, x / 2 AS b, x % 2 = 0 AS c, 'short' AS d, 'a text of some length ' || x AS e, make_timestamp_ns(x) AS f, NULL::BIGINT AS g FROM range(500000) r(x)"}
	rows := int64(0)
	var cpu time.Duration
	for b.Loop() {
		stats, err := p.Run(b.Context(), job, func(arrow.RecordBatch) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		rows, cpu = rows+stats.Rows, cpu+stats.CPU
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(rows), "child-cpu-ns/row")
}
