package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
)

func TestPlacementIDStaysWithItsDirectory(t *testing.T) {
	t.Parallel()
	get := func(dir string) string {
		t.Helper()
		id, err := PlacementID(dir)
		if err != nil || uuid.Validate(id) != nil {
			t.Fatalf("%q, %v", id, err)
		}
		return id
	}
	base := t.TempDir()
	first := get(filepath.Join(base, "a", "cache"))
	if again := get(filepath.Join(base, "a", "cache")); again != first {
		t.Errorf("%s after %s", again, first)
	}
	if err := os.Rename(filepath.Join(base, "a"), filepath.Join(base, "b")); err != nil {
		t.Fatal(err)
	}
	if moved := get(filepath.Join(base, "b", "cache")); moved != first {
		t.Errorf("%s after %s", moved, first)
	}
	if other := get(filepath.Join(base, "a", "cache")); other == first {
		t.Error("a new directory has the identity of the former one")
	}
	files, err := os.ReadDir(filepath.Join(base, "a", "cache"))
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	path := filepath.Join(base, "a", "cache", identityFile)
	if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := PlacementID(filepath.Dir(path)); millstream.KindOf(err) != millstream.Invalid || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if _, err := PlacementID(filepath.Join(path, "below a file")); err == nil {
		t.Error("no error for a directory that cannot be")
	}
}
