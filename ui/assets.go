package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"path"
	"strings"
)

//go:embed assets
var files embed.FS

// Asset is a file the pages refer to. Its path contains a hash of its content, so it can be kept for ever.
type Asset struct {
	Type string
	Body []byte
}

// AssetRoot is where assets are below the base path.
const AssetRoot = "/assets/"

var assets, hashed = load()

// FindAsset looks up an asset by the last element of its path.
func FindAsset(name string) (Asset, bool) {
	a, ok := assets[name]
	return a, ok
}

// asset is the path of an asset below the base path. Naming one that does not exist is a mistake in a template; every page is rendered by a test.
func asset(name string) string {
	h, ok := hashed[name]
	if !ok {
		panic("ui: no asset " + name)
	}
	return AssetRoot + h
}

// load reads what is embedded, by hashed name, and the hashed name of each.
func load() (byHash map[string]Asset, hashed map[string]string) {
	byHash, hashed = map[string]Asset{}, map[string]string{}
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // cannot happen: it is part of the binary
	}
	for _, e := range entries {
		body, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err) // likewise
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		byHash[name], hashed[e.Name()] = Asset{Type: typeOf(ext), Body: body}, name
	}
	return byHash, hashed
}

// typeOf does not ask the machine's own tables, which differ.
func typeOf(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}
