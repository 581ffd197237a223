package cluster

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// MilliCPU is the weight of this process: the CPU quota of its control group, version 2 or 1, in thousandths of a CPU, or the CPUs of the host if that is less
// or there is no quota; at least 1,000. root is the file system's root. Every group above the process's own counts too: the tightest quota holds.
func MilliCPU(root fs.FS, hostCPUs int) int {
	milli := hostCPUs * 1000
	own, _ := fs.ReadFile(root, "proc/self/cgroup") // unreadable: the quota of the mount's top is looked at below
	for _, g := range groups(own) {
		for dir := g.path; ; dir = path.Dir(dir) {
			if quota, ok := g.quota(root, dir); ok {
				milli = min(milli, quota)
			}
			if dir == "." {
				break
			}
		}
	}
	return max(milli, 1000)
}

// group is a control group of the process that may bound its CPU.
type group struct {
	mounts []string // where its hierarchy may be mounted
	path   string   // below the mount; "." is its top. Inside of a container the path may be the host's, of which only the top is there.
	v2     bool
}

// groups reads /proc/self/cgroup, whose lines are hierarchy:controllers:path.
func groups(file []byte) []group {
	// The tops are there also when the file tells nothing, as in some sandboxes.
	v1, v2 := group{mounts: []string{"sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"}, path: "."}, group{mounts: []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}, path: ".", v2: true}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		rel := path.Clean(strings.TrimLeft(path.Clean("/"+parts[2]), "/"))
		switch {
		case parts[1] == "":
			v2.path = rel
		case hasController(parts[1], "cpu"):
			v1.path = rel
		}
	}
	return []group{v1, v2}
}

func hasController(list, name string) bool {
	for c := range strings.SplitSeq(list, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// quota reads what one directory of the hierarchy allows, in milli-CPU.
func (g group) quota(root fs.FS, dir string) (milli int, ok bool) {
	for _, mount := range g.mounts {
		at := path.Join(mount, dir)
		var text []string
		if g.v2 {
			text = words(root, path.Join(at, "cpu.max"))
		} else {
			text = append(words(root, path.Join(at, "cpu.cfs_quota_us")), words(root, path.Join(at, "cpu.cfs_period_us"))...)
		}
		if len(text) != 2 {
			continue
		}
		quota, qerr := strconv.ParseInt(text[0], 10, 64) // "max" and -1 are no quota
		period, perr := strconv.ParseInt(text[1], 10, 64)
		if qerr == nil && perr == nil && quota > 0 && period > 0 && quota < 1<<50 {
			return int(quota * 1000 / period), true
		}
	}
	return 0, false
}

func words(root fs.FS, name string) []string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return nil // no such limit
	}
	return strings.Fields(string(b))
}
