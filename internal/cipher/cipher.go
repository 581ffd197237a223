// Package cipher keeps secrets in the database unreadable without the node's key: AES-256-GCM, bound to the place where each value is stored, so that a
// sealed value copied to another row or column does not open.
package cipher

import (
	"crypto/aes"
	stdcipher "crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

const (
	version  = 1
	idSize   = 4
	overhead = 1 + idSize + 12 // version, key id, nonce
)

// ErrUnknownKey means that a value was sealed with a key this node does not have.
var ErrUnknownKey = errors.New("sealed with a key this node does not have: give the key it was sealed with as [cipher].key")

// Cipher seals and opens secrets. It is safe for concurrent use.
type Cipher struct {
	current keyID
	mac     []byte // key of MAC
	keys    map[keyID]stdcipher.AEAD
}

type keyID [idSize]byte

// Place is where a sealed value lives; it is authenticated with the value.
type Place struct{ Table, Row, Column string }

func (p Place) aad() []byte { return []byte(p.Table + "|" + p.Row + "|" + p.Column) }

// New takes the current key, which seals, and former ones, which only open.
func New(current []byte, former ...[]byte) (*Cipher, error) {
	c := &Cipher{keys: map[keyID]stdcipher.AEAD{}}
	for i, key := range append([][]byte{current}, former...) {
		if len(key) != KeySize {
			return nil, fmt.Errorf("a cipher key has %d bytes, it must have %d", len(key), KeySize)
		}
		if allZero(key) {
			return nil, errors.New("a cipher key of zeros only protects nothing: make one with `openssl rand -base64 32`")
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := stdcipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		id := idOf(key)
		if i == 0 {
			c.current = id
			mac := sha256.Sum256(append([]byte("millstream mac"), key...))
			c.mac = mac[:]
		}
		c.keys[id] = aead
	}
	return c, nil
}

// Seal encrypts a secret for its place: version, key id, nonce, then the ciphertext with its tag.
func (c *Cipher) Seal(plain []byte, at Place) []byte {
	out := make([]byte, overhead, overhead+len(plain)+16)
	out[0] = version
	copy(out[1:], c.current[:])
	nonce := out[1+idSize : overhead]
	_, _ = rand.Read(nonce) // never fails: it ends the process when the system has no randomness
	return c.keys[c.current].Seal(out, nonce, plain, at.aad())
}

// MAC is 32 bytes that only holders of the current key can make of the data; what is for one purpose is good for no other.
func (c *Cipher) MAC(purpose string, data []byte) []byte {
	h := hmac.New(sha256.New, c.mac)
	h.Write([]byte(purpose + "|"))
	h.Write(data)
	return h.Sum(nil)
}

// Open decrypts what Seal made for the same place.
func (c *Cipher) Open(sealed []byte, at Place) ([]byte, error) {
	if len(sealed) < overhead || sealed[0] != version {
		return nil, errors.New("not a sealed value of a known version")
	}
	aead, ok := c.keys[keyID(sealed[1:1+idSize])]
	if !ok {
		return nil, ErrUnknownKey
	}
	plain, err := aead.Open(nil, sealed[1+idSize:overhead], sealed[overhead:], at.aad())
	if err != nil {
		return nil, fmt.Errorf("sealed value of %s.%s does not open: it was changed or moved", at.Table, at.Column)
	}
	return plain, nil
}

// Stale says whether a sealed value should be sealed anew because another key than the current one sealed it.
func (c *Cipher) Stale(sealed []byte) bool {
	return len(sealed) < overhead || sealed[0] != version || keyID(sealed[1:1+idSize]) != c.current
}

// ParseKey reads a key as the configuration gives it: base64 of 32 bytes.
func ParseKey(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	enc := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	key, err := enc.DecodeString(s)
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("[cipher].key must be the base64 of %d bytes: make one with `openssl rand -base64 32`", KeySize)
	}
	return key, nil
}

// KeyFile is the file of a generated key in the data directory.
const KeyFile = "cipher.key"

// LoadKey reads the key that was generated into the data directory, or generates it at the first start. Whoever loses this file loses the secrets sealed
// with it, never telemetry.
func LoadKey(dataDir string) ([]byte, error) {
	path := filepath.Join(dataDir, KeyFile)
	text, err := os.ReadFile(path)
	if err == nil {
		key, err := ParseKey(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s does not hold a key: restore the file, or give the key as MS_CIPHER_KEY", path)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the cipher key: %w", err)
	}
	key := make([]byte, KeySize)
	_, _ = rand.Read(key)
	if err := writeNew(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n")); err != nil {
		return nil, fmt.Errorf("keep the generated cipher key: %w", err)
	}
	return key, nil
}

// writeNew makes a private file appear whole or not at all, and on stable storage before anything is sealed with the key.
func writeNew(path string, text []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func idOf(key []byte) keyID {
	sum := sha256.Sum256(append([]byte("millstream cipher key id\x00"), key...))
	return keyID(sum[:idSize])
}

func allZero(key []byte) bool {
	var or byte
	for _, b := range key {
		or |= b
	}
	return or == 0
}
