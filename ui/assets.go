package ui

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
)

//go:embed dist
var embedded embed.FS

// Asset is a file the pages refer to. Its name contains a hash of its content, so it can be kept for ever.
type Asset struct {
	Type string
	Body []byte
	Gzip []byte // the same, compressed; nil: not worth it
}

// AssetRoot is where assets are below the base path.
const AssetRoot = "/assets/"

// bundle is what ui/build.mjs made.
type bundle struct {
	manifest map[string]entry // by logical name
	files    map[string]Asset // by hashed name
	icons    []string         // sorted
}

// entry is a file of the manifest. Of a page's script, Imports are the scripts that it always loads, and Style is the page's style sheet; empty: app.css.
type entry struct {
	File    string   `json:"file"`
	Imports []string `json:"imports"`
	Style   string   `json:"style"`
}

var (
	current atomic.Pointer[bundle]
	devDir  string // read anew for every request; empty: the embedded files are served
)

func init() {
	dist, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // cannot happen: the name is a constant
	}
	b, err := load(dist)
	if err != nil {
		panic(fmt.Sprintf("ui: the embedded files are not whole: %v", err)) // a mistake of the build; every test of this package would show it
	}
	current.Store(b)
}

// UseDir serves the assets from a directory instead of the embedded ones, and looks at it anew for each page: for work on the assets. It must be called
// before the first page is rendered.
func UseDir(dir string) error {
	b, err := load(os.DirFS(dir))
	if err != nil {
		return fmt.Errorf("[dev].assets %s: %w (make ui builds it)", dir, err)
	}
	devDir = dir
	current.Store(b)
	return nil
}

// refresh looks at the directory of UseDir anew. While a build is under way the former files serve.
func refresh() {
	if devDir == "" {
		return
	}
	if b, err := load(os.DirFS(devDir)); err == nil {
		current.Store(b)
	}
}

// FindAsset looks up an asset by the last element of its path.
func FindAsset(name string) (Asset, bool) {
	a, ok := current.Load().files[name]
	return a, ok
}

// asset is the path of an asset below the base path. Naming one that does not exist is a mistake in a template; every page is rendered by a test.
func asset(name string) string {
	e, ok := current.Load().manifest[name]
	if !ok {
		panic("ui: no asset " + name)
	}
	return AssetRoot + e.File
}

// imports are the paths of the scripts that a script always loads.
func imports(name string) []string {
	var out []string
	for _, f := range current.Load().manifest[name].Imports {
		out = append(out, AssetRoot+f)
	}
	return out
}

// style is the path of the style sheet of a script's page.
func style(name string) string {
	if s := current.Load().manifest[name].Style; s != "" {
		return AssetRoot + s
	}
	return asset("app.css")
}

// symbol is the path of an icon. Naming one that is not in the sprite is a mistake in a template.
func symbol(name string) string {
	if _, ok := slices.BinarySearch(current.Load().icons, name); !ok {
		panic("ui: no icon " + name)
	}
	return asset("icons.svg") + "#" + name
}

func load(dist fs.FS) (*bundle, error) {
	b := &bundle{manifest: map[string]entry{}, files: map[string]Asset{}}
	for name, into := range map[string]any{"manifest.json": &b.manifest, "icons.json": &b.icons} {
		text, err := fs.ReadFile(dist, name)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	names, err := fs.ReadDir(dist, ".")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		body, err := fs.ReadFile(dist, n.Name())
		if err != nil {
			return nil, err
		}
		if b.files[n.Name()], err = newAsset(path.Ext(n.Name()), body); err != nil {
			return nil, err
		}
	}
	for name, e := range b.manifest {
		if _, ok := b.files[e.File]; !ok {
			return nil, fmt.Errorf("manifest.json: %s is not there for %s", e.File, name)
		}
	}
	return b, nil
}

func newAsset(ext string, body []byte) (Asset, error) {
	a := Asset{Type: typeOf(ext), Body: body}
	if ext == ".woff2" { // compressed already
		return a, nil
	}
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if err != nil {
		return a, err
	}
	if _, err := w.Write(body); err != nil {
		return a, err
	}
	if err := w.Close(); err != nil {
		return a, err
	}
	if z.Len() < len(body)*9/10 {
		a.Gzip = z.Bytes()
	}
	return a, nil
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
	case ".woff2":
		return "font/woff2"
	case ".json":
		return "application/json"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
