package segment

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// tokenTable collects the tokens of one column of a run, and in which blocks each stands.
type tokenTable struct {
	slots  []uint32 // token id + 1; a power of two of them
	arena  []byte
	tokens []tokenInfo
	long   uint64 // blocks with a token longer than what counts of it
	rows   int    // of the run
}

type tokenInfo struct {
	off, size uint32 // in arena
	hash      uint32
	lastRow   uint32 // row + 1 in which it was seen last
	inBlock   uint32 // rows of that row's block that have it
	rows      uint32 // rows that have it, as counted by count
	blocks    uint64
	full      uint64 // blocks all of whose rows have it
}

func (t *tokenTable) reset(rows int) {
	if t.slots == nil {
		t.slots = make([]uint32, 1<<12)
	}
	clear(t.slots)
	t.arena, t.tokens, t.long, t.rows = t.arena[:0], t.tokens[:0], 0, rows
}

func (t *tokenTable) text(id uint32) string {
	k := &t.tokens[id]
	return text(t.arena[k.off : k.off+k.size])
}

// hashToken mixes the bytes of a folded token, eight at a time. It only places tokens in the table; identity is decided by comparing bytes.
func hashToken(p []byte) uint32 {
	h := uint64(len(p)) * 0x9e3779b97f4a7c15
	for len(p) >= 8 {
		h = (h ^ binary.LittleEndian.Uint64(p)) * 0xff51afd7ed558ccd
		h ^= h >> 32
		p = p[8:]
	}
	var last uint64
	for i, c := range p {
		last |= uint64(c) << (8 * i)
	}
	h = (h ^ last) * 0xff51afd7ed558ccd
	h ^= h >> 29
	h *= 0xc4ceb9fe1a85ec53
	return uint32(h >> 32)
}

// id finds or adds a token.
func (t *tokenTable) id(token []byte) uint32 {
	h := hashToken(token)
	mask := uint32(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		k := t.slots[i]
		if k == 0 {
			t.slots[i] = uint32(len(t.tokens) + 1)
			break
		}
		if x := &t.tokens[k-1]; x.hash == h && text(t.arena[x.off:x.off+x.size]) == text(token) {
			return k - 1
		}
	}
	id := uint32(len(t.tokens))
	t.tokens = append(t.tokens, tokenInfo{off: uint32(len(t.arena)), size: uint32(len(token)), hash: h})
	t.arena = append(t.arena, token...)
	if len(t.tokens)*2 > len(t.slots) {
		t.grow()
	}
	return id
}

func (t *tokenTable) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	mask := uint32(len(t.slots) - 1)
	for id := range t.tokens {
		i := t.tokens[id].hash & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = uint32(id + 1)
	}
}

// scan appends the ids of the text's tokens to ids; long says that one was longer than what counts of it.
func (t *tokenTable) scan(ids []uint32, s string) (out []uint32, long bool) {
	var buf [maxToken]byte
	for i := 0; ; {
		token, start, end := nextToken(buf[:], s, i)
		if start == len(s) {
			return ids, long
		}
		long = long || len(token) == maxToken
		ids = append(ids, t.id(token))
		i = end
	}
}

// mark notes that a row has a token. Rows come in order.
func (t *tokenTable) mark(id uint32, row int) {
	k := &t.tokens[id]
	if k.lastRow == uint32(row+1) {
		return
	}
	block := row / blockRows
	bit := uint64(1) << block
	if k.blocks&bit == 0 {
		k.blocks |= bit
		k.inBlock = 0
	}
	k.lastRow = uint32(row + 1)
	if k.inBlock++; int(k.inBlock) == min(blockRows, t.rows-block*blockRows) {
		k.full |= bit
	}
}

// tokenBlock is about how many bytes of entries make a block of the token dictionary, which is what a look-up reads.
const tokenBlock = 8 << 10

// posting codes: below 64 the only block; then how the blocks are written.
const (
	postMask = 64 // eight bytes
	postFull = 65 // blocks, and blocks all of whose rows have the token: sixteen bytes
	postList = 66 // and up: code − 64 blocks, a byte each
	maxList  = 6
)

// write encodes the dictionary: blocks of sorted, prefix-coded tokens with their postings, then a directory of the blocks, which is the region returned.
// Offsets count from where w begins.
func (t *tokenTable) write(w *writer, comp *compressor) region {
	order := make([]uint32, len(t.tokens))
	for i := range order {
		order[i] = uint32(i)
	}
	prefix := make([]uint64, len(t.tokens)) // the first eight bytes decide most comparisons
	for i := range prefix {
		var b [8]byte
		copy(b[:], t.text(uint32(i)))
		prefix[i] = binary.BigEndian.Uint64(b[:])
	}
	slices.SortFunc(order, func(a, b uint32) int {
		if x, y := prefix[a], prefix[b]; x != y {
			if x < y {
				return -1
			}
			return 1
		}
		return strings.Compare(t.text(a), t.text(b))
	})
	var dir writer
	var raw, packed []byte
	blocks := 0
	flush := func(first string) {
		if len(raw) == 0 {
			return
		}
		packed = comp.compress(packed, raw)
		body, size := packed, len(raw)
		if len(packed) >= len(raw) {
			body, size = raw, 0
		}
		dir.string(first)
		dir.sizes(int64(len(body)), int64(size))
		dir.fixed32(checksum(body))
		w.p = append(w.p, body...)
		raw = raw[:0]
		blocks++
	}
	start := int64(len(w.p))
	first, last := "", ""
	for _, id := range order {
		s := t.text(id)
		if len(raw) >= tokenBlock {
			flush(first)
		}
		if len(raw) == 0 {
			first, last = s, ""
		}
		raw = appendEntry(raw, last, s, &t.tokens[id])
		last = s
	}
	flush(first)
	var head writer
	head.sizes(start, int64(blocks))
	head.fixed64(t.long)
	head.p = append(head.p, dir.p...)
	g := region{int64(len(w.p)), int64(len(head.p)), checksum(head.p)}
	w.p = append(w.p, head.p...)
	return g
}

func appendEntry(raw []byte, last, s string, k *tokenInfo) []byte {
	shared := 0
	for shared < len(last) && shared < len(s) && last[shared] == s[shared] {
		shared++
	}
	if rest := len(s) - shared; shared < 15 && rest < 16 {
		raw = append(raw, byte(shared<<4|rest))
	} else {
		raw = append(raw, 0xf0, byte(shared), byte(rest))
	}
	raw = append(raw, s[shared:]...)
	switch n := bits.OnesCount64(k.blocks); {
	case k.full != 0:
		raw = append(raw, postFull)
		raw = binary.LittleEndian.AppendUint64(raw, k.blocks)
		raw = binary.LittleEndian.AppendUint64(raw, k.full)
	case n == 1:
		raw = append(raw, byte(bits.TrailingZeros64(k.blocks)))
	case n <= maxList:
		raw = append(raw, byte(64+n))
		for m := k.blocks; m != 0; m &= m - 1 {
			raw = append(raw, byte(bits.TrailingZeros64(m)))
		}
	default:
		raw = append(raw, postMask)
		raw = binary.LittleEndian.AppendUint64(raw, k.blocks)
	}
	return raw
}
