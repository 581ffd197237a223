package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/millstream/millstream"
)

// Password lengths in characters. There are no other rules: length is what resists guessing.
const (
	MinPassword = 12
	MaxPassword = 128
)

// Cost of one hash: 19 MiB and two passes, about 20 ms. Stored hashes carry their own parameters, so a later change of these keeps old passwords valid.
const (
	argonMemory  = 19 * 1024 // KiB
	argonTime    = 2
	argonThreads = 1
	argonKey     = 32
	argonSalt    = 16
	maxHashing   = 4 // at once: bounds the memory that a flood of logins can take to 76 MiB
)

// hasher hashes and verifies passwords, a bounded number at once.
type hasher struct {
	slots chan struct{}
	dummy string // a hash that no password has, verified when the user is unknown so that both cases take equally long
}

func newHasher() *hasher {
	h := &hasher{slots: make(chan struct{}, maxHashing)}
	secret := make([]byte, argonKey)
	_, _ = rand.Read(secret)
	h.dummy = encodeHash(secret, secret[:argonSalt])
	return h
}

// CheckPassword applies the rules for a new password.
func CheckPassword(password string) error {
	n := utf8.RuneCountInString(password)
	switch {
	case !utf8.ValidString(password):
		return millstream.Errorf(millstream.Invalid, "the password is not valid UTF-8")
	case n < MinPassword:
		return millstream.Errorf(millstream.Invalid, "the password has %d characters, it needs at least %d", n, MinPassword)
	case n > MaxPassword:
		return millstream.Errorf(millstream.Invalid, "the password has %d characters, at most %d are allowed", n, MaxPassword)
	}
	return nil
}

// hash makes the stored form of a new password, in the usual `$argon2id$v=19$m=…` notation.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	if err := CheckPassword(password); err != nil {
		return "", err
	}
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt)
	return encodeHash(argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonThreads, argonKey), salt), nil
}

// verify says whether the password belongs to the stored hash. An empty hash (unknown user, or one without a password yet) costs as much and never fits.
func (h *hasher) verify(ctx context.Context, stored, password string) (bool, error) {
	known := stored != ""
	if !known {
		stored = h.dummy
	}
	if len(password) > MaxPassword*utf8.UTFMax {
		password = "" // cannot be anyone's: hash something short instead of what was sent
	}
	p, err := decodeHash(stored)
	if err != nil {
		return false, err
	}
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	got := argon2.IDKey([]byte(password), p.salt, p.time, p.memory, p.threads, uint32(len(p.key)))
	return subtle.ConstantTimeCompare(got, p.key) == 1 && known && password != "", nil
}

func (h *hasher) enter(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hasher) leave() { <-h.slots }

type hashParts struct {
	memory, time uint32
	threads      uint8
	salt, key    []byte
}

func encodeHash(key, salt []byte) string {
	e := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads, e.EncodeToString(salt), e.EncodeToString(key))
}

func decodeHash(s string) (hashParts, error) {
	var p hashParts
	var version int
	fields := strings.Split(s, "$")
	if len(fields) != 6 || fields[1] != "argon2id" {
		return p, fmt.Errorf("stored password is not an argon2id hash")
	}
	if _, err := fmt.Sscanf(fields[2], "v=%d", &version); err != nil || version != argon2.Version {
		return p, fmt.Errorf("stored password has an unknown argon2 version")
	}
	if _, err := fmt.Sscanf(fields[3], "m=%d,t=%d,p=%d", &p.memory, &p.time, &p.threads); err != nil {
		return p, fmt.Errorf("stored password has unreadable parameters: %w", err)
	}
	var err error
	if p.salt, err = base64.RawStdEncoding.DecodeString(fields[4]); err != nil {
		return p, fmt.Errorf("stored password has an unreadable salt: %w", err)
	}
	if p.key, err = base64.RawStdEncoding.DecodeString(fields[5]); err != nil {
		return p, fmt.Errorf("stored password has an unreadable key: %w", err)
	}
	if p.threads == 0 || p.time == 0 || len(p.key) < 16 || p.memory > 1<<20 {
		return p, fmt.Errorf("stored password has parameters out of range")
	}
	return p, nil
}
