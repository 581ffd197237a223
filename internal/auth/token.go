package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Hash is the SHA-256 of a secret of full entropy: the only form in which API tokens, refresh tokens, invites and the setup code are stored.
type Hash = [sha256.Size]byte

const (
	apiPrefix     = "ms_"
	refreshPrefix = "msr_"
	invitePrefix  = "msi_"
	tokenIDLen    = 8
	secretLen     = 52 // 32 random bytes in base32
)

var b32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// random is n random bytes as lower-case base32, which survives any shell, URL and double click.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process when the system has no randomness
	return b32.EncodeToString(b)
}

// newToken makes a secret of the form prefix, id, "_", secret; the id is public and names the token in lists.
func newToken(prefix string) (text, id string, hash Hash) {
	id = random(5)
	text = prefix + id + "_" + random(32)
	return text, id, sha256.Sum256([]byte(text))
}

// tokenID reads the public id of a well-formed token. It allocates nothing.
func tokenID(text, prefix string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || len(rest) != tokenIDLen+1+secretLen || rest[tokenIDLen] != '_' {
		return "", false
	}
	for i := range len(rest) {
		c := rest[i]
		if i != tokenIDLen && (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return "", false
		}
	}
	return rest[:tokenIDLen], true
}
