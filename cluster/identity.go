package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
)

// identityFile holds the placement id.
const identityFile = "placement_id"

// PlacementID is the identity of a cache directory, a UUID that it keeps; one without gets a new one. So a node that restarts on the same volume, under
// whatever node id, owns the same segments and finds them cached, and a new volume is a new owner.
func PlacementID(dir string) (string, error) {
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newPlacementID(dir, path)
	}
	if err != nil {
		return "", fmt.Errorf("read the identity of the cache: %w", err)
	}
	id, err := uuid.Parse(strings.TrimSpace(string(b)))
	if err != nil {
		return "", millstream.Wrap(millstream.Invalid, err, "%s does not hold a UUID: delete it, and the cache gets a new identity", path)
	}
	return id.String(), nil
}

// newPlacementID writes the file whole or not at all.
func newPlacementID(dir, path string) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("give the cache an identity: %w", err)
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, identityFile+"-*.tmp")
	if err != nil {
		return "", err
	}
	id = uuid.NewString()
	_, err = f.WriteString(id + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return id, nil
}
