package scan

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// seed is one per process: hashes are compared within a process only.
var seed = maphash.MakeSeed()

// stringTable numbers distinct strings from 1 in order of first sight. It keeps copies. Short strings are found by their bytes as one word, without a look at
// the copy, which costs a cache miss or two less.
type stringTable struct {
	slots  []slot      // of longer strings: open addressing, a power of two, at most 3/4 full
	long   int         // strings in slots
	shorts []shortSlot // likewise, at most half full
	short  int
	strs   []string
	arena  []byte

	touched uint32 // keeps the loads of touch
}

// slot keeps part of the hash, so that a probe seldom touches a string that differs; id 0 is free.
type slot struct{ hash, id uint32 }

// shortSlot keeps a string of up to maxShort bytes itself, as packed.
type shortSlot struct {
	word uint64
	id   uint32
}

const maxShort = 7

// packed is a short string as a word: its bytes, the first lowest, and its length above them.
func packed(s string) uint64 {
	w := uint64(len(s)) << 56
	for i := range len(s) {
		w |= uint64(s[i]) << (8 * i)
	}
	return w
}

// find gives the number of s, a new one if it was not seen yet, and how many bytes the table grew by.
func (t *stringTable) find(s string) (id uint32, grown int64) {
	if len(s) <= maxShort {
		return t.findShort(packed(s))
	}
	if t.long*4 >= len(t.slots)*3 {
		grown = t.grow()
	}
	h := maphash.String(seed, s)
	mask := len(t.slots) - 1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		e := t.slots[i]
		if e.id == 0 {
			t.long++
			t.strs = append(t.strs, t.keep(s))
			t.slots[i] = slot{uint32(h >> 32), uint32(len(t.strs))}
			return uint32(len(t.strs)), grown + int64(len(s)) + 16
		}
		if e.hash == uint32(h>>32) && t.strs[e.id-1] == s {
			return e.id, grown
		}
	}
}

// findShort is find for a packed string.
func (t *stringTable) findShort(w uint64) (id uint32, grown int64) {
	if t.short*2 >= len(t.shorts) {
		grown = t.growShort()
	}
	mask := len(t.shorts) - 1
	for i := int(mix(w)) & mask; ; i = (i + 1) & mask {
		e := &t.shorts[i]
		if e.id != 0 && e.word == w {
			return e.id, grown
		}
		if e.id == 0 {
			var text [8]byte
			binary.LittleEndian.PutUint64(text[:], w)
			t.short++
			t.strs = append(t.strs, t.keep(bytesString(text[:w>>56])))
			*e = shortSlot{w, uint32(len(t.strs))}
			return e.id, grown + 24
		}
	}
}

// touch loads the slots in which the words are looked for, all at once as far as the processor can.
func (t *stringTable) touch(words []uint64) {
	if len(t.shorts) < touchFrom {
		return
	}
	mask, ids := len(t.shorts)-1, uint32(0)
	for _, w := range words {
		ids |= t.shorts[int(mix(w))&mask].id
	}
	t.touched = ids
}

// touchFrom is the number of slots, of 16 bytes, from which a table no longer fits into the first caches.
const touchFrom = 1 << 14

func (t *stringTable) grow() int64 {
	old := len(t.slots)
	t.slots = make([]slot, max(64, 2*old))
	mask := len(t.slots) - 1
	for id, s := range t.strs {
		if len(s) <= maxShort {
			continue
		}
		h := maphash.String(seed, s)
		i := int(h) & mask
		for t.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = slot{uint32(h >> 32), uint32(id + 1)}
	}
	return int64(len(t.slots)-old) * 8
}

func (t *stringTable) growShort() int64 {
	old := t.shorts
	t.shorts = make([]shortSlot, max(64, 2*len(old)))
	mask := len(t.shorts) - 1
	for _, e := range old {
		if e.id == 0 {
			continue
		}
		i := int(mix(e.word)) & mask
		for t.shorts[i].id != 0 {
			i = (i + 1) & mask
		}
		t.shorts[i] = e
	}
	return int64(len(t.shorts)-len(old)) * 16
}

// keep copies s into the arena; a full arena is left to the strings that use it.
func (t *stringTable) keep(s string) string {
	if len(t.arena)+len(s) > cap(t.arena) {
		t.arena = make([]byte, 0, max(len(s), min(1<<16, 1024+2*cap(t.arena))))
	}
	at := len(t.arena)
	t.arena = append(t.arena, s...)
	return bytesString(t.arena[at:len(t.arena):len(t.arena)])
}

// wordTable numbers distinct 64-bit words from 1 in order of first sight.
type wordTable struct {
	slots []wordSlot
	words []uint64
}

type wordSlot struct {
	word uint64
	id   uint32
}

func (t *wordTable) find(w uint64) (id uint32, grown int64) {
	if len(t.words)*4 >= len(t.slots)*3 {
		grown = t.grow()
	}
	mask := len(t.slots) - 1
	for i := int(mix(w)) & mask; ; i = (i + 1) & mask {
		e := &t.slots[i]
		if e.id == 0 {
			t.words = append(t.words, w)
			*e = wordSlot{w, uint32(len(t.words))}
			return e.id, grown + 8
		}
		if e.word == w {
			return e.id, grown
		}
	}
}

func (t *wordTable) grow() int64 {
	old := t.slots
	t.slots = make([]wordSlot, max(64, 2*len(old)))
	mask := len(t.slots) - 1
	for id, w := range t.words {
		i := int(mix(w)) & mask
		for t.slots[i].id != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = wordSlot{w, uint32(id + 1)}
	}
	return int64(len(t.slots)-len(old)) * 16
}

// mix spreads the bits of a word over the low bits.
func mix(w uint64) uint64 {
	hi, lo := bits.Mul64(w^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// pairTable numbers distinct pairs of small numbers from 0 in order of first sight. While the numbers stay small it is a plain two-dimensional array.
type pairTable struct {
	words wordTable // pairs in order; a<<32 | b
	grid  []uint32  // number + 1 of (a, b) at a*stride + b
	wide  int       // stride
	high  int       // rows of the grid
	hash  bool      // the grid became too large
}

// maxGrid bounds the array form; beyond it a pair is looked up by hash.
const maxGrid = 1 << 18

func (t *pairTable) len() int { return len(t.words.words) }

func (t *pairTable) find(a, b uint32) (id uint32, grown int64) {
	if int(a) >= t.high || int(b) >= t.wide {
		if !t.hash {
			grown = t.resize(int(a), int(b))
		}
		if t.hash {
			id, g := t.words.find(uint64(a)<<32 | uint64(b))
			return id - 1, grown + g
		}
	}
	at := &t.grid[int(a)*t.wide+int(b)]
	if *at == 0 {
		t.words.words = append(t.words.words, uint64(a)<<32|uint64(b))
		*at = uint32(len(t.words.words))
		grown += 8
	}
	return *at - 1, grown
}

// resize makes room for (a, b), or turns to hashing.
func (t *pairTable) resize(a, b int) int64 {
	high, wide := max(t.high, 16), max(t.wide, 16)
	for high <= a {
		high *= 2
	}
	for wide <= b {
		wide *= 2
	}
	if high > maxGrid || wide > maxGrid || high*wide > maxGrid {
		t.hash, t.grid, t.high, t.wide = true, nil, 0, 0
		words := t.words.words
		t.words.words = nil
		grown := int64(0)
		for _, w := range words { // in order, so every pair keeps its number
			_, g := t.words.find(w)
			grown += g
		}
		return grown
	}
	grown := int64(high*wide-len(t.grid)) * 4
	t.high, t.wide, t.grid = high, wide, make([]uint32, high*wide)
	for id, w := range t.words.words {
		t.grid[int(w>>32)*wide+int(uint32(w))] = uint32(id + 1)
	}
	return grown
}
