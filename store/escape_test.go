package store

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", "nul\x00", `back\slash`, `\x00`, `\`, `\\x`, "\xff\xfe", "日本\x00\\", "\ufffd", strings.Repeat("\\", 7)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		if !utf8.ValidString(e) || strings.Contains(e, "\x00") {
			t.Fatalf("escape(%q) = %q cannot be stored", s, e)
		}
		if back := unescape(e); back != s {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}
