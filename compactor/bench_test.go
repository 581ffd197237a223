package compactor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/segment/metrics/metricstest"
)

// mergeChild names the directory whose segments a child process merges, so that what it takes is that of the merge alone.
const mergeChild = "MILLSTREAM_TEST_MERGE"

func TestMain(m *testing.M) {
	dir := os.Getenv(mergeChild)
	if dir == "" {
		os.Exit(m.Run())
	}
	c, err := mergeFiles(dir)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// cost is what a merge took.
type cost struct {
	In   int64 // bytes of the inputs' Parquet objects
	Out  int64
	Rows int64
	Runs int
	CPU  time.Duration
	Peak int64 // bytes, resident
}

// mergeFiles merges the segments in a directory as a compactor does, from files to files.
func mergeFiles(dir string) (c cost, err error) {
	signal := millstream.Logs
	if _, err := os.Stat(filepath.Join(dir, "samples")); err == nil {
		signal = millstream.Metrics
	}
	var in []any
	for i := 0; ; i++ {
		src, size, err := openFiles(dir, i, signal)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return c, err
		}
		in = append(in, src)
		c.In += size
	}
	data, index, err := files(dir)
	if err != nil {
		return c, err
	}
	before := cpuTime()
	dw, iw := bufio.NewWriterSize(data, 1<<20), bufio.NewWriterSize(index, 256<<10)
	info, err := mergeSources(ctx, dw, iw, signal, in, nil)
	if err = errors.Join(err, dw.Flush(), iw.Flush()); err != nil {
		return c, err
	}
	out := millstream.Segment{Signal: signal, MinTime: info.MinTime, MaxTime: info.MaxTime, Rows: info.Rows, Data: millstream.Extent{Length: info.DataSize}, Index: millstream.Extent{Length: info.IndexSize}}
	if err := reread(out, data, index); err != nil {
		return c, err
	}
	c.CPU, c.Out, c.Rows = cpuTime()-before, info.DataSize, info.Rows
	c.Peak, err = peak()
	return c, err
}

func openFiles(dir string, i int, signal millstream.Signal) (src any, size int64, err error) {
	data, err := os.Open(filepath.Join(dir, fmt.Sprint(i, ".parquet")))
	if err != nil {
		return nil, 0, err
	}
	index, err := os.Open(filepath.Join(dir, fmt.Sprint(i, ".index")))
	if err != nil {
		return nil, 0, err
	}
	d, err := data.Stat()
	if err != nil {
		return nil, 0, err
	}
	x, err := index.Stat()
	if err != nil {
		return nil, 0, err
	}
	if signal == millstream.Metrics {
		src, err = metrics.Open(data, d.Size(), index, x.Size())
	} else {
		src, err = segment.Open(data, d.Size(), index, x.Size())
	}
	return src, d.Size(), err
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory that this process had resident.
func peak() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10, err
}

// childMerge has a child process merge the segments of a directory.
func childMerge(t testing.TB, dir string) (c cost) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mergeChild+"="+dir)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, failed.String())
	}
	check(t, json.Unmarshal(out, &c))
	return c
}

// inputs writes segments of one batch each into a new directory.
func inputs(t testing.TB, n int, batch func(i int) *millstream.Batch) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		var data, index bytes.Buffer
		b := batch(i)
		if b.Samples != nil {
			check(t, os.WriteFile(filepath.Join(dir, "samples"), nil, 0o600))
		}
		if _, err := (part{batch: b}).encode(&data, &index); err != nil {
			t.Fatal(err)
		}
		writeInput(t, dir, i, data.Bytes(), index.Bytes())
	}
	return dir
}

func writeInput(t testing.TB, dir string, i int, data, index []byte) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".parquet")), data, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".index")), index, 0o600))
}

// repeated is inputs of which only the first few are made: the others are links to them in turn.
func repeated(t testing.TB, n, made int, batch func(i int) *millstream.Batch) string {
	t.Helper()
	dir := inputs(t, made, batch)
	for i := made; i < n; i++ {
		for _, ext := range []string{".parquet", ".index"} {
			check(t, os.Link(filepath.Join(dir, fmt.Sprint(i%made, ext)), filepath.Join(dir, fmt.Sprint(i, ext))))
		}
	}
	return dir
}

// grow makes one segment of many copies of another's runs and puts links to it in a directory as its inputs: merging is copying.
func grow(t testing.TB, n int, size int64, batch *millstream.Batch) string {
	t.Helper()
	small := inputs(t, 1, func(int) *millstream.Batch { return batch })
	src, one, err := openFiles(small, 0, millstream.Logs)
	check(t, err)
	var in []any
	for range max(1, size/one) {
		in = append(in, src)
	}
	data, index, err := files(small)
	check(t, err)
	_, err = mergeSources(ctx, data, index, millstream.Logs, in, nil)
	check(t, errors.Join(err, data.Close(), index.Close()))
	dir := t.TempDir()
	for i := range n {
		check(t, os.Link(data.Name(), filepath.Join(dir, fmt.Sprint(i, ".parquet"))))
		check(t, os.Link(index.Name(), filepath.Join(dir, fmt.Sprint(i, ".index"))))
	}
	return dir
}

// mostResident bounds the memory of a merge, whatever it merges.
const mostResident = 512 << 20

// BenchmarkMerge merges 20 segments in a process of its own, from files to files, and reports the megabytes of the inputs' Parquet objects per second of CPU time and
// the most memory that was resident.
func BenchmarkMerge(b *testing.B) {
	w, fleet := newWorkload(1), metricstest.New(10_000)
	for _, c := range []struct {
		name   string
		inputs func(b *testing.B) string
	}{
		{"logs interleaved", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return w.logs(8000, int64(i)*1e6, 20e6) })
		}},
		{"logs of 500 records", func(b *testing.B) string {
			return inputs(b, 120, func(i int) *millstream.Batch { return w.logs(500, int64(i)*1e6, 120e6) })
		}},
		{"logs copied", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return w.logs(1<<16, int64(i)*1e6, 20e6) })
		}},
		{"logs copied of 256 MB", func(b *testing.B) string { return grow(b, 20, 256e6, w.logs(1<<18, 0, 1e6)) }},
		{"traces interleaved", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return w.traces(8000, int64(i)*1e6, 20e6) })
		}},
		{"traces copied", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return w.traces(1<<16, int64(i)*1e6, 20e6) })
		}},
		{"metrics one after the other", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return samples(fleet, 120*i, 120) })
		}},
		{"metrics of 2 samples", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return samples(fleet, 2*i, 2) })
		}},
		{"metrics interleaved", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch {
				shifted := *fleet
				shifted.Start += int64(i) * 700
				return samples(&shifted, 0, 120)
			})
		}},
		{"1,000 fields in small runs", func(b *testing.B) string {
			return repeated(b, 20, 2, func(i int) *millstream.Batch { return w.wide(1000, 1000, int64(i)*1e6, 20e6) })
		}},
		{"1,000 fields in full runs", func(b *testing.B) string {
			return repeated(b, 20, 1, func(i int) *millstream.Batch { return w.wide(8192, 1000, int64(i)*1e6, 20e6) })
		}},
		{"types that differ in full runs", func(b *testing.B) string {
			return repeated(b, 3, 2, func(i int) *millstream.Batch {
				x := w.wide(8192, 1000, int64(i)*1e6, 20e6)
				for k := range x.Columns {
					if i == 0 {
						x.Columns[k].Widen(millstream.String)
					}
				}
				return x
			})
		}},
		{"records of 1 MB", func(b *testing.B) string {
			return repeated(b, 20, 2, func(i int) *millstream.Batch { return w.large(40, 1_000_000, int64(i)*1e6, 20e6) })
		}},
		{"records of 10 kB", func(b *testing.B) string {
			return repeated(b, 20, 2, func(i int) *millstream.Batch { return w.large(2000, 10_000, int64(i)*1e6, 20e6) })
		}},
		{"a record of 1 MB each", func(b *testing.B) string {
			return repeated(b, 120, 2, func(i int) *millstream.Batch { return w.large(1, 1_000_000, int64(i)*1e6, 20e6) })
		}},
		{"words that differ", func(b *testing.B) string {
			return repeated(b, 20, 2, func(i int) *millstream.Batch { return w.unique(8000, 120, int64(i)*1e6, 20e6) })
		}},
		{"200,000 series of one name", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return manySeries(i*10_000, 10_000, 2) })
		}},
		{"two series of 40 M samples", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return longSeries(2, i*20*2_000_000, 2_000_000) })
		}},
		{"two series of 40 M samples interleaved", func(b *testing.B) string {
			return inputs(b, 20, func(i int) *millstream.Batch { return longSeries(2, i, 2_000_000) })
		}},
		{"100,000 series of one name in each", func(b *testing.B) string {
			return repeated(b, 20, 1, func(int) *millstream.Batch { return manySeries(0, 100_000, 1) })
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := c.inputs(b)
			var sum cost
			b.ResetTimer()
			for range b.N {
				one := childMerge(b, dir)
				sum.In, sum.CPU, sum.Peak = one.In, sum.CPU+one.CPU, max(sum.Peak, one.Peak)
			}
			if sum.Peak > mostResident {
				b.Errorf("%d MiB were resident, more than %d", sum.Peak>>20, mostResident>>20)
			}
			b.ReportMetric(float64(sum.In)*float64(b.N)/sum.CPU.Seconds()/1e6, "MB/CPU-s")
			b.ReportMetric(float64(sum.Peak)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(sum.In)/1e6, "MB")
		})
	}
}
