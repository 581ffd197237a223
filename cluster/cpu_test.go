package cluster

import (
	"os"
	"runtime"
	"testing"
	"testing/fstest"
)

func TestMilliCPU(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		host  int
		want  int
	}{
		"nothing is known":        {nil, 6, 6000},
		"version 2, container":    {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "2400000 100000\n"}, 64, 24000},
		"a fraction stays":        {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 64, 1500},
		"another period":          {map[string]string{"sys/fs/cgroup/cpu.max": "65000 20000\n"}, 64, 3250},
		"less than one CPU":       {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 64, 1000},
		"more than the host has":  {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "6400000 100000\n"}, 8, 8000},
		"no quota":                {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8, 8000},
		"the tightest above":      {map[string]string{"proc/self/cgroup": "0::/kube/pod/app\n", "sys/fs/cgroup/kube/pod/app/cpu.max": "max 100000", "sys/fs/cgroup/kube/pod/cpu.max": "300000 100000", "sys/fs/cgroup/kube/cpu.max": "800000 100000", "sys/fs/cgroup/cpu.stat": ""}, 64, 3000},
		"its own":                 {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "200000 100000", "sys/fs/cgroup/a/cpu.max": "300000 100000"}, 64, 2000},
		"a path of the host's":    {map[string]string{"proc/self/cgroup": "0::/../../init.scope\n", "sys/fs/cgroup/cpu.max": "400000 100000"}, 64, 4000},
		"version 1, host":         {map[string]string{"proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/docker/1\n", "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000\n", "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000\n"}, 64, 2500},
		"version 1, container":    {map[string]string{"proc/self/cgroup": "4:cpuacct,cpu:/docker/1\n0::/docker/1\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "350000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "50000\n"}, 64, 7000},
		"version 1, no quota":     {map[string]string{"proc/self/cgroup": "4:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 4, 4000},
		"cpuset is not cpu":       {map[string]string{"proc/self/cgroup": "4:cpuset:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "100000\n", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n"}, 4, 4000},
		"hybrid":                  {map[string]string{"proc/self/cgroup": "4:cpu:/\n0::/\n", "sys/fs/cgroup/unified/cpu.max": "200000 100000"}, 4, 2000},
		"damaged files":           {map[string]string{"proc/self/cgroup": "x\n0:\n::\n", "sys/fs/cgroup/cpu.max": "many 0 of them", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000"}, 4, 4000},
		"a period of nothing":     {map[string]string{"sys/fs/cgroup/cpu.max": "200000 0"}, 4, 4000},
		"a quota beyond anything": {map[string]string{"sys/fs/cgroup/cpu.max": "9223372036854775807 1"}, 4, 4000},
	} {
		files := fstest.MapFS{}
		for path, text := range c.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := MilliCPU(files, c.host); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := MilliCPU(os.DirFS("/"), runtime.NumCPU()); got < 1000 || got > 1000*runtime.NumCPU() {
		t.Errorf("of this process: %d", got)
	}
}
