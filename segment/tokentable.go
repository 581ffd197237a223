package segment

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// tokenTable collects the tokens of one column of a run, and in which blocks each stands.
type tokenTable struct {
	slots  []uint64 // upper half: hash, lower half: token id + 1; a power of two of them
	arena  []byte
	keys   []tokenKey
	tokens []tokenInfo
	long   uint64 // blocks with a token longer than what counts of it
	rows   int    // of the run
}

// tokenKey identifies a token: a short one by its first bytes alone, so that finding it touches no other memory.
type tokenKey struct {
	head      uint64 // the first eight bytes, little-endian, zeros beyond the end
	off, size uint32 // in arena
}

type tokenInfo struct {
	lastRow uint32 // row + 1 in which it was seen last
	inBlock uint32 // rows of that row's block that have it
	rows    uint32 // rows that have it, as counted by count
	blocks  uint64
	full    uint64 // blocks all of whose rows have it
}

func (t *tokenTable) reset(rows int) {
	if t.slots == nil {
		t.slots = make([]uint64, 1<<12)
	}
	clear(t.slots)
	t.arena, t.keys, t.tokens, t.long, t.rows = t.arena[:0], t.keys[:0], t.tokens[:0], 0, rows
}

func (t *tokenTable) text(id uint32) string {
	k := &t.keys[id]
	return text(t.arena[k.off : k.off+k.size])
}

// tokenHead gives a token's first bytes. The token's memory has at least eight.
func tokenHead(token []byte) uint64 {
	head := binary.LittleEndian.Uint64(token[:8])
	if len(token) < 8 {
		head &= 1<<(8*len(token)) - 1
	}
	return head
}

// hashToken mixes the bytes of a folded token, eight at a time. It only places tokens in the table; identity is decided by comparing bytes.
func hashToken(head uint64, token []byte) uint32 {
	h := (head ^ uint64(len(token))<<56) * 0xff51afd7ed558ccd
	for i := 8; i < len(token); i += 8 {
		h ^= h >> 32
		h = (h ^ tokenHead(token[i:min(i+8, len(token)):cap(token)])) * 0xff51afd7ed558ccd
	}
	h ^= h >> 29
	h *= 0xc4ceb9fe1a85ec53
	return uint32(h >> 32)
}

// id finds or adds a token. The token lies in a buffer of maxToken bytes and seven more.
func (t *tokenTable) id(token []byte) uint32 {
	head := tokenHead(token)
	h := hashToken(head, token)
	mask := uint32(len(t.slots) - 1)
	i := h & mask
	for ; t.slots[i] != 0; i = (i + 1) & mask {
		if uint32(t.slots[i]>>32) != h {
			continue
		}
		id := uint32(t.slots[i]) - 1
		k := &t.keys[id]
		if k.head == head && int(k.size) == len(token) && (k.size <= 8 || text(t.arena[k.off+8:k.off+k.size]) == text(token[8:])) {
			return id
		}
	}
	id := uint32(len(t.tokens))
	t.slots[i] = uint64(h)<<32 | uint64(id+1)
	t.keys = append(t.keys, tokenKey{head: head, off: uint32(len(t.arena)), size: uint32(len(token))})
	t.tokens = append(t.tokens, tokenInfo{})
	t.arena = append(t.arena, token...)
	if len(t.tokens)*2 > len(t.slots) {
		t.grow()
	}
	return id
}

func (t *tokenTable) grow() {
	old := t.slots
	t.slots = make([]uint64, 2*len(old))
	mask := uint32(len(t.slots) - 1)
	for _, s := range old {
		if s == 0 {
			continue
		}
		i := uint32(s>>32) & mask
		for t.slots[i] != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}

// scan appends the ids of the text's tokens to ids; long says that one was longer than what counts of it.
func (t *tokenTable) scan(ids []uint32, s string) (out []uint32, long bool) {
	var buf [maxToken + 7]byte
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

// sortedToken is a token's first eight bytes, as a number that orders as they do, and its id.
type sortedToken struct {
	head uint64
	id   uint32
}

// sorted orders the tokens by their bytes.
func (t *tokenTable) sorted() []sortedToken {
	out := make([]sortedToken, len(t.keys))
	for i := range out {
		out[i] = sortedToken{bits.ReverseBytes64(t.keys[i].head), uint32(i)}
	}
	slices.SortFunc(out, func(a, b sortedToken) int {
		if a.head != b.head {
			if a.head < b.head {
				return -1
			}
			return 1
		}
		return strings.Compare(t.text(a.id), t.text(b.id))
	})
	return out
}

// write encodes the dictionary: blocks of sorted, prefix-coded tokens with their postings, then a directory of the blocks, which is the region returned.
// Offsets count from where w begins.
func (t *tokenTable) write(w *writer, comp *compressor) region {
	order := t.sorted()
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
	for i := range order {
		id := order[i].id
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
