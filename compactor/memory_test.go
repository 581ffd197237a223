package compactor

import (
	"fmt"
	"testing"

	"github.com/millstream/millstream"
)

// manySeries is samples of n series of one name, as of pods that come and go.
func manySeries(first, n, ticks int) *millstream.Batch {
	s := &millstream.Samples{}
	at := newWorkload(1).begin / 1e6
	for i := range n {
		key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "container_cpu_usage_seconds_total"}, {Name: "namespace", Value: fmt.Sprint("team-", (first+i)%40)},
			{Name: "pod", Value: fmt.Sprintf("worker-%08x-%d", (first+i)*2654435761&0xffffffff, first+i)}, {Name: "container", Value: "app"}, {Name: "node", Value: fmt.Sprint("node-", i%200)}})
		if err != nil {
			panic(err)
		}
		s.Series = append(s.Series, string(key))
	}
	for k := range ticks {
		for i := range n {
			s.Ref, s.Time, s.Value = append(s.Ref, uint32(i)), append(s.Time, at+int64(k)*15_000), append(s.Value, float64(i%1000)+float64(k))
		}
	}
	return &millstream.Batch{Samples: s}
}

// TestMergeMemory: whatever is merged, the process stays below 512 MiB.
func TestMergeMemory(t *testing.T) {
	const limit = 512 << 20
	w := newWorkload(2)
	for name, dir := range map[string]func(t *testing.T) string{
		"1,000 fields in small runs": func(t *testing.T) string {
			return repeated(t, 20, 2, func(i int) *millstream.Batch { return w.wide(1000, 1000, int64(i)*1e6, 20e6) })
		},
		"1,000 fields in full runs": func(t *testing.T) string {
			return repeated(t, 20, 1, func(i int) *millstream.Batch { return w.wide(8192, 1000, int64(i)*1e6, 20e6) })
		},
		"types that differ in full runs": func(t *testing.T) string {
			return repeated(t, 3, 2, func(i int) *millstream.Batch {
				b := w.wide(8192, 500, int64(i)*1e6, 20e6)
				for k := range b.Columns {
					if i == 0 {
						b.Columns[k].Widen(millstream.String)
					}
				}
				return b
			})
		},
		"records of 1 MB": func(t *testing.T) string {
			return repeated(t, 20, 2, func(i int) *millstream.Batch { return w.large(40, 1_000_000, int64(i)*1e6, 20e6) })
		},
		"200,000 series of one name": func(t *testing.T) string {
			return inputs(t, 20, func(i int) *millstream.Batch { return manySeries(i*10_000, 10_000, 2) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := childMerge(t, dir(t))
			t.Logf("%d rows of %.1f MB: %d MiB at most, %.1f CPU s, %.1f MB/CPU-s", c.Rows, float64(c.In)/1e6, c.Peak>>20, c.CPU.Seconds(), float64(c.In)/1e6/c.CPU.Seconds())
			if c.Peak > limit {
				t.Errorf("%d MiB were resident, more than %d", c.Peak>>20, limit>>20)
			}
		})
	}
}
