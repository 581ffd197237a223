package config

import (
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Setting is one leaf of the configuration, found by walking the struct.
type Setting struct {
	Section, Key string // a section in another is written outer.inner
	Env          string // MS_ + section + key, computed from the path and never parsed back
	Doc          string
	Secret       bool
	value        reflect.Value
}

// Name is the setting as documentation writes it: [section].key.
func (s Setting) Name() string { return "[" + s.Section + "]." + s.Key }

// Settings lists every setting of c in order.
func Settings(c *Config) []Setting {
	return walk(nil, "", "", reflect.ValueOf(c).Elem())
}

// walk adds the settings of a section, and of the sections in it.
func walk(out []Setting, section, doc string, v reflect.Value) []Setting {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		s := Setting{Section: section, Key: f.Tag.Get("toml"), Doc: f.Tag.Get("doc"), Secret: f.Tag.Get("secret") != "", value: v.Field(i)}
		if f.Type.Kind() == reflect.Struct {
			out = walk(out, strings.TrimPrefix(section+"."+s.Key, "."), s.Doc, v.Field(i))
			continue
		}
		if doc != "" {
			s.Doc = doc + ": " + s.Doc
		}
		s.Env = "MS_" + strings.ToUpper(strings.ReplaceAll(section, ".", "_")+"_"+s.Key)
		out = append(out, s)
	}
	return out
}

// Load reads the file (none if path is empty) and the environment over the defaults. Its error names everything that is wrong at once.
func Load(path string, environ []string) (Config, error) {
	c := Default()
	var errs []error
	if path != "" {
		errs = append(errs, readFile(&c, path)...)
	}
	errs = append(errs, overlay(&c, environ)...)
	if err := c.fill(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = c.Validate()
	}
	return c, errors.Join(errs...)
}

func readFile(c *Config, path string) []error {
	md, err := toml.DecodeFile(path, c)
	if err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return []error{fmt.Errorf("%s, line %d: %s", path, pe.Position.Line, pe.Message)}
		}
		return []error{fmt.Errorf("configuration file: %w", err)}
	}
	var known []string
	for _, s := range Settings(c) {
		known = append(known, s.Section+"."+s.Key)
	}
	var errs []error
	for _, k := range md.Undecoded() {
		if slices.ContainsFunc(known, func(n string) bool { return strings.HasPrefix(n, k.String()+".") }) {
			continue // a section
		}
		errs = append(errs, fmt.Errorf("%s: unknown setting %s%s", path, k, hint(k.String(), known)))
	}
	return errs
}

func overlay(c *Config, environ []string) []error {
	settings := Settings(c)
	byEnv := map[string]Setting{}
	var names []string
	for _, s := range settings {
		byEnv[s.Env] = s
		names = append(names, s.Env)
	}
	var errs []error
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "MS_") {
			continue
		}
		s, ok := byEnv[name]
		if base, isFile := strings.CutSuffix(name, "_FILE"); !ok && isFile && byEnv[base].Secret {
			b, err := os.ReadFile(value)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				continue
			}
			s, ok, value = byEnv[base], true, strings.TrimRight(string(b), "\r\n")
		}
		switch {
		case ok:
			if err := set(s.value, value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		case fromKubernetes(name):
		default:
			errs = append(errs, fmt.Errorf("unknown variable %s%s", name, hint(name, names)))
		}
	}
	return errs
}

// fromKubernetes recognises what Kubernetes sets for a Service whose name begins with ms-.
func fromKubernetes(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name+"_", "_PORT_")
}

func set(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
		v.SetBool(b)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		v.SetInt(int64(n))
	case reflect.Slice:
		var list struct{ V []string }
		if _, err := toml.Decode("V = "+text, &list); err != nil {
			return fmt.Errorf(`%q is not a list: write ["a","b"]`, text)
		}
		v.Set(reflect.ValueOf(list.V))
	default:
		return fmt.Errorf("a setting of kind %s cannot be read from text", v.Kind())
	}
	return nil
}

// hint names the closest of the candidates, if one is close.
func hint(got string, candidates []string) string {
	best, at := "", len(got)/3+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(got), strings.ToLower(c)); d < at {
			best, at = c, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
