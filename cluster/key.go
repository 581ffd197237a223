package cluster

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
)

// Key is what rendezvous hashing sees of an identity: its BLAKE3-128. Make it once and keep it; choosing among nodes then takes a few nanoseconds a node.
type Key struct{ lo, hi uint64 }

// KeyOf is the key of an identity: the first 16 bytes of its BLAKE3, read as two little-endian numbers.
func KeyOf[T ~string](id T) Key {
	return keyOf(unsafe.Slice(unsafe.StringData(string(id)), len(id))) // which is only read: a copy would cost a third of the hash
}

func keyOf(id []byte) Key {
	sum := blake3.Sum256(id)
	return Key{lo: binary.LittleEndian.Uint64(sum[:8]), hi: binary.LittleEndian.Uint64(sum[8:16])}
}

// StreamKey is the key of a stream for the choice of its intake.
func StreamKey(org millstream.OrgID, signal millstream.Signal, name string) Key {
	b := make([]byte, 0, 128)
	b = append(b, org...)
	b = append(b, 0, byte(signal), 0) // the name comes last, so it needs no end
	return keyOf(append(b, name...))
}

// UnitKey is the key of a unit of divided work: the id of a stream, an organization, a rule.
func UnitKey(id string) Key { return KeyOf(id) }

// SegmentKey is the key of a segment for its placement.
func SegmentKey(id millstream.SegmentID) Key { return KeyOf(id) }

// pair is the hash of a thing's key and a node's: 64 uniform bits. It folds the 128-bit product of the mixed halves, and finalises as MurmurHash3 does.
// Other implementations check theirs against testdata/placement.json.
func pair(thing, node Key) uint64 {
	hi, lo := bits.Mul64(thing.lo^node.lo, thing.hi^node.hi)
	x := hi ^ lo ^ bits.RotateLeft64(node.lo, 32) ^ thing.hi
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}
