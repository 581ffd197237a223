package millstream

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzAppendJSONString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x1f\n\r\t", "ünï \u2028 \U0001F600", "\xff half \xc3", "end\xe2\x82"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		enc := AppendJSONString([]byte("x"), s)
		var got string
		if enc[0] != 'x' || json.Unmarshal(enc[1:], &got) != nil {
			t.Fatalf("%q gives %q", s, enc)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); got != want && got != perByte(s) {
			t.Errorf("%q reads back as %q, want %q", s, got, want)
		}
	})
}

// perByte replaces each invalid byte by itself, where strings.ToValidUTF8 replaces a run of them at once.
func perByte(s string) string { return string([]rune(s)) }
