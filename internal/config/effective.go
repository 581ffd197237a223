package config

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// Effective is a setting as it is in force.
type Effective struct {
	Name   string // [section].key
	Env    string // the variable that sets it
	Value  string // as one writes it in the file; a secret is only said to be set
	Source string // default, file or environment
	Doc    string
}

// InForce lists the settings of a loaded configuration with where each value comes from; path and environ are what it was loaded from.
func InForce(c *Config, path string, environ []string) []Effective {
	var file toml.MetaData
	if path != "" {
		var again Config
		file, _ = toml.DecodeFile(path, &again) // it was read once already; what changed since is not in force
	}
	set := map[string]bool{}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		set[strings.TrimSuffix(name, "_FILE")] = true
	}
	var out []Effective
	for _, s := range Settings(c) {
		e := Effective{Name: s.Name(), Env: s.Env, Value: s.Text(), Source: "default", Doc: s.Doc}
		switch {
		case set[s.Env]:
			e.Source = "environment"
		case file.IsDefined(append(strings.Split(s.Section, "."), s.Key)...):
			e.Source = "file"
		}
		if s.Secret && e.Value != "" {
			e.Value = "(set)"
		}
		out = append(out, e)
	}
	return out
}
