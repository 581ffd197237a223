package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/millstream/millstream"
)

// debianBinaries is where Debian and its kin keep each major version's server programs; they are not on PATH.
const debianBinaries = "/usr/lib/postgresql/*/bin"

// findBinaries returns the directory that holds initdb and postgres: that of PATH first, then the newest of Debian's. With a major version (of an existing data
// directory, "15") only that version will do.
func findBinaries(major string) (string, error) {
	var seen []string
	for _, dir := range candidates() {
		if !isExecutable(filepath.Join(dir, "postgres")) || !isExecutable(filepath.Join(dir, "initdb")) {
			continue
		}
		v, err := majorOf(dir)
		if err != nil {
			return "", err
		}
		if major == "" || v == major {
			return dir, nil
		}
		seen = append(seen, v)
	}
	if len(seen) == 0 {
		return "", millstream.Errorf(millstream.Unavailable, "no PostgreSQL server is installed (looked on PATH and in %s): install it with `apt-get install postgresql`, or set [database].url to a server that runs elsewhere", debianBinaries)
	}
	return "", millstream.Errorf(millstream.Conflict, "the data directory belongs to PostgreSQL %s, but only %s is installed: install `postgresql-%s`, or move the data with pg_dump and an empty directory", major, strings.Join(seen, ", "), major)
}

func candidates() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	found, _ := filepath.Glob(debianBinaries) // the pattern is a constant and well formed
	sort.Slice(found, func(i, j int) bool { return debianMajor(found[i]) > debianMajor(found[j]) })
	return append(dirs, found...)
}

func debianMajor(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// majorOf asks the program: "postgres (PostgreSQL) 15.14 (Debian …)". Debian's path says it without a process.
func majorOf(dir string) (string, error) {
	if match, _ := filepath.Match(debianBinaries, dir); match {
		return filepath.Base(filepath.Dir(dir)), nil
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", dir, err)
	}
	words := strings.Fields(string(out))
	if len(words) < 3 {
		return "", fmt.Errorf("%s/postgres does not say its version but %q", dir, out)
	}
	major, _, _ := strings.Cut(words[2], ".")
	return major, nil
}

func isExecutable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// Usable says whether the installed binaries fit an existing data directory; nil: they do.
func Usable(dataDir string) error {
	version, err := dataVersion(dataDir)
	if err != nil {
		return err
	}
	_, err = findBinaries(version)
	return err
}
