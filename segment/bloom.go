package segment

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// A split-block Bloom filter, as Parquet defines it: a value picks one block of 32 bytes and sets one bit in each of its eight words. About 1 % false positives
// at bloomBits bits a value.
const bloomBits = 10

var bloomSalt = [8]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// newBloom makes the filter of n values.
func newBloom(n int) []byte { return make([]byte, 32*max(1, (n*bloomBits+255)/256)) }

func bloomBlock(p []byte, h uint64) []byte {
	i := (h >> 32) * uint64(len(p)/32) >> 32
	return p[i*32 : i*32+32]
}

func bloomAdd(p []byte, value string) {
	h := xxhash.Sum64String(value)
	b := bloomBlock(p, h)
	for i, salt := range bloomSalt {
		w := b[4*i:]
		binary.LittleEndian.PutUint32(w, binary.LittleEndian.Uint32(w)|1<<(uint32(h)*salt>>27))
	}
}

// bloomHas says whether the value may have been added.
func bloomHas(p []byte, value string) bool {
	h := xxhash.Sum64String(value)
	b := bloomBlock(p, h)
	for i, salt := range bloomSalt {
		if binary.LittleEndian.Uint32(b[4*i:])&(1<<(uint32(h)*salt>>27)) == 0 {
			return false
		}
	}
	return true
}
