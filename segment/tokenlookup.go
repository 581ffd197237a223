package segment

import (
	"encoding/binary"
	"sort"
	"strings"
)

// tokenDirectory is the directory of a column's token dictionary, parsed.
type tokenDirectory struct {
	long   uint64
	blocks []tokenDirBlock
}

type tokenDirBlock struct {
	first string
	off   int64
	size  int
	raw   int // 0: stored as it is
	sum   uint32
}

func parseDirectory(p []byte) (*tokenDirectory, error) {
	d := parser{p: p}
	at := d.size()
	n := d.count(6)
	t := &tokenDirectory{long: d.fixed64(), blocks: make([]tokenDirBlock, n)}
	for i := range t.blocks {
		t.blocks[i] = tokenDirBlock{first: d.string(), off: at, size: int(d.uint()), raw: int(d.uint()), sum: d.fixed32()}
		at += int64(t.blocks[i].size)
	}
	if d.bad || len(d.p) != 0 {
		return nil, damaged("a token directory")
	}
	return t, nil
}

func (r *runScan) directory(c *column) (*tokenDirectory, error) {
	if t := r.dir[c.name]; t != nil {
		return t, nil
	}
	p, err := readRegion(r.r.index, r.info.base, c.tokens, r.info.base+r.info.size, nil)
	if err != nil {
		return nil, err
	}
	t, err := parseDirectory(p)
	if err != nil {
		return nil, err
	}
	if r.dir == nil {
		r.dir = map[string]*tokenDirectory{}
	}
	r.dir[c.name] = t
	return t, nil
}

// lookup gives the blocks in which a folded token stands, and those all of whose rows have it.
func (r *runScan) lookup(c *column, token string) (blocks, full uint64, err error) {
	t, err := r.directory(c)
	if err != nil {
		return 0, 0, err
	}
	i := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].first > token })
	if i == 0 {
		return 0, 0, nil
	}
	p, err := r.tokenBlock(&t.blocks[i-1])
	if err != nil {
		return 0, 0, err
	}
	e := tokenEntries{p: p}
	for e.next() {
		if s := text(e.token); s == token {
			return e.blocks, e.full, nil
		} else if s > token {
			return 0, 0, nil
		}
	}
	return 0, 0, e.err()
}

// lookupPattern gives the blocks in which tokens stand that fit a pattern, and those all of whose rows have one and the same of them. It reads the part of the
// dictionary that begins with what the pattern begins with.
func (r *runScan) lookupPattern(c *column, pattern string) (blocks, full uint64, err error) {
	all := allBlocks(r.info.blocks())
	if all == 1 {
		return all, 0, nil
	}
	t, err := r.directory(c)
	if err != nil {
		return 0, 0, err
	}
	first, _, _ := strings.Cut(pattern, "*")
	for i := range t.blocks {
		if i+1 < len(t.blocks) && t.blocks[i+1].first < first {
			continue
		}
		if b := t.blocks[i].first; b > first && !strings.HasPrefix(b, first) {
			break
		}
		p, err := r.tokenBlock(&t.blocks[i])
		if err != nil {
			return 0, 0, err
		}
		e := tokenEntries{p: p}
		for e.next() {
			if (e.blocks&^blocks != 0 || e.full&^full != 0) && fits(e.token, pattern) {
				blocks, full = blocks|e.blocks, full|e.full
			}
		}
		if err := e.err(); err != nil {
			return 0, 0, err
		}
	}
	return blocks, full, nil
}

// minFragment is the least length of a piece of a token for which reading the whole dictionary is likely to pay.
const minFragment = 3

// lookupPart gives the blocks in which a token stands that contains the fragment, by reading the whole dictionary: dear, but far cheaper than all texts.
func (r *runScan) lookupPart(c *column, fragment string) (uint64, error) {
	all := allBlocks(r.info.blocks())
	if len(fragment) < minFragment || all == 1 {
		return all, nil
	}
	t, err := r.directory(c)
	if err != nil {
		return 0, err
	}
	found := t.long // what stands beyond the end of a cut token is not in the dictionary
	for i := range t.blocks {
		p, err := r.tokenBlock(&t.blocks[i])
		if err != nil {
			return 0, err
		}
		e := tokenEntries{p: p}
		for e.next() {
			if e.blocks&^found != 0 && strings.Contains(text(e.token), fragment) {
				found |= e.blocks
			}
		}
		if err := e.err(); err != nil {
			return 0, err
		}
		if found == all {
			break
		}
	}
	return found, nil
}

func (r *runScan) tokenBlock(b *tokenDirBlock) ([]byte, error) {
	p, err := readRegion(r.r.index, r.info.base, region{b.off, int64(b.size), b.sum}, r.info.base+r.info.size, nil)
	if err != nil || b.raw == 0 {
		return p, err
	}
	if b.raw > 1<<20 {
		return nil, damaged("a token block")
	}
	return decompress(nil, p, b.raw)
}

// tokenEntries walks the entries of a block of the token dictionary.
type tokenEntries struct {
	p            []byte
	token        []byte
	blocks, full uint64
	bad          bool
}

func (e *tokenEntries) err() error {
	if e.bad {
		return damaged("a token block")
	}
	return nil
}

// next reads an entry; false at the end, or at damage.
func (e *tokenEntries) next() bool {
	if len(e.p) == 0 {
		return false
	}
	e.bad = true // until the entry is whole
	shared, rest := int(e.p[0]>>4), int(e.p[0]&15)
	e.p = e.p[1:]
	if shared == 15 {
		if len(e.p) < 2 {
			return false
		}
		shared, rest = int(e.p[0]), int(e.p[1])
		e.p = e.p[2:]
	}
	if shared > len(e.token) || rest >= len(e.p) {
		return false
	}
	e.token = append(e.token[:shared], e.p[:rest]...)
	code := e.p[rest]
	e.p = e.p[rest+1:]
	e.full = 0
	switch {
	case code < postMask:
		e.blocks = 1 << code
	case code == postMask && len(e.p) >= 8:
		e.blocks = binary.LittleEndian.Uint64(e.p)
		e.p = e.p[8:]
	case code == postFull && len(e.p) >= 16:
		e.blocks, e.full = binary.LittleEndian.Uint64(e.p), binary.LittleEndian.Uint64(e.p[8:])
		e.p = e.p[16:]
	case code >= postList && int(code)-64 <= maxList && len(e.p) >= int(code)-64:
		e.blocks = 0
		for _, b := range e.p[:code-64] {
			e.blocks |= 1 << (b & 63)
		}
		e.p = e.p[code-64:]
	default:
		return false
	}
	e.bad = false
	return true
}
