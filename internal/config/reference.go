package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteReference writes the reference page of all settings.
func WriteReference(w io.Writer) error {
	c := Default()
	var b strings.Builder
	b.WriteString("# Configuration reference\n\nMade from the configuration struct by `millstream reference`; do not edit.\n\n")
	b.WriteString("Settings come from the defaults, then one TOML file (`--config`), then environment variables. Sizes are written `512 MiB`, `10 GB` or in bytes; lists use TOML\n")
	b.WriteString("syntax (`MS_HTTP_TRUSTED_PROXIES='[\"10.0.0.0/8\"]'`). A secret is also read from the file that its variable with `_FILE` names. An unknown key or variable stops the start.\n")
	section := ""
	for _, s := range Settings(&c) {
		if s.Section != section {
			section = s.Section
			fmt.Fprintf(&b, "\n## [%s]\n\n| key | variable | default | meaning |\n|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", s.Key, s.Env, s.show(), s.Doc)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Setting) show() string {
	text := s.Text()
	if text == "" {
		return "empty"
	}
	return "`" + text + "`"
}

// TOML is the value in the file's syntax.
func (s Setting) TOML() string {
	switch s.value.Interface().(type) {
	case string, Size:
		return strconv.Quote(s.Text())
	case []string:
		if s.value.Len() == 0 {
			return "[]"
		}
	}
	return s.Text()
}

// Text is the value as one would write it in the file.
func (s Setting) Text() string {
	switch v := s.value.Interface().(type) {
	case []string:
		if len(v) == 0 {
			return ""
		}
		return `["` + strings.Join(v, `","`) + `"]`
	default:
		return fmt.Sprint(v)
	}
}
