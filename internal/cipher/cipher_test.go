package cipher

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func must(t *testing.T, current []byte, former ...[]byte) *Cipher {
	t.Helper()
	c, err := New(current, former...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSealOpensOnlyInItsPlace(t *testing.T) {
	c := must(t, key(1))
	at := Place{"jwt_keys", "k1", "secret"}
	sealed := c.Seal([]byte("hush"), at)
	if bytes.Contains(sealed, []byte("hush")) {
		t.Fatal("the secret is readable")
	}
	if bytes.Equal(sealed, c.Seal([]byte("hush"), at)) {
		t.Fatal("two seals of one secret are equal")
	}
	if plain, err := c.Open(sealed, at); err != nil || string(plain) != "hush" {
		t.Fatalf("got %q, %v", plain, err)
	}
	for name, other := range map[string]Place{
		"table":  {"webhooks", "k1", "secret"},
		"row":    {"jwt_keys", "k2", "secret"},
		"column": {"jwt_keys", "k1", "other"},
	} {
		if _, err := c.Open(sealed, other); err == nil {
			t.Errorf("opened in another %s", name)
		}
	}
}

func TestDamagedValuesDoNotOpen(t *testing.T) {
	c := must(t, key(1))
	at := Place{"t", "r", "c"}
	sealed := c.Seal([]byte("hush"), at)
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := c.Open(bad, at); err == nil {
			t.Errorf("opened with byte %d changed", i)
		}
		if _, err := c.Open(sealed[:i], at); err == nil {
			t.Errorf("opened when cut to %d bytes", i)
		}
	}
}

func TestFormerKeysOpenAndAreStale(t *testing.T) {
	at := Place{"t", "r", "c"}
	old := must(t, key(1)).Seal([]byte("hush"), at)
	both := must(t, key(2), key(1))
	if plain, err := both.Open(old, at); err != nil || string(plain) != "hush" {
		t.Fatalf("got %q, %v", plain, err)
	}
	if !both.Stale(old) || both.Stale(both.Seal(nil, at)) {
		t.Error("stale must be exactly what the former key sealed")
	}
	if _, err := must(t, key(2)).Open(old, at); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("got %v", err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	for name, k := range map[string][]byte{"zero": make([]byte, KeySize), "short": key(1)[:31], "none": nil} {
		if _, err := New(k); err == nil {
			t.Errorf("%s key was taken", name)
		}
	}
	for name, s := range map[string]string{"empty": "", "short": "AAAA", "not base64": strings.Repeat("!", 44)} {
		if _, err := ParseKey(s); err == nil {
			t.Errorf("%s text was taken", name)
		}
	}
	want := key(0xfb)
	for _, s := range []string{base64.StdEncoding.EncodeToString(want), base64.URLEncoding.EncodeToString(want), base64.RawStdEncoding.EncodeToString(want) + "\n"} {
		if got, err := ParseKey(s); err != nil || !bytes.Equal(got, want) {
			t.Errorf("ParseKey(%q) = %x, %v", s, got, err)
		}
	}
}

func TestLoadKeyGeneratesOnce(t *testing.T) {
	dir := t.TempDir()
	a, err := LoadKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadKey(dir)
	if err != nil || !bytes.Equal(a, b) {
		t.Fatalf("second load differs: %v", err)
	}
	if st, err := os.Stat(filepath.Join(dir, KeyFile)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, KeyFile), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(dir); err == nil {
		t.Error("a damaged key file was taken")
	}
}
