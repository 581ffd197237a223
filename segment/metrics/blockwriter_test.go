package metrics

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// Blocks of all sizes are what was appended to them, read as a whole or in parts, while a piece of one is all that is held.
func TestBlockWriter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var out bytes.Buffer
	b := blockWriter{out: &out}
	var want [][]byte
	for _, size := range []int{0, 1, 500, pieceBytes - 1, pieceBytes, pieceBytes + 1, 3*pieceBytes + 77, 2 * windowBytes, 40} {
		var block []byte
		for len(block) < size {
			item := bytes.Repeat([]byte{byte(r.IntN(200))}, min(1+r.IntN(30), size-len(block)))
			block, b.block = append(block, item...), append(b.block, item...)
			if b.spill(); b.length() != len(block) {
				t.Fatalf("the length is %d after %d bytes", b.length(), len(block))
			}
		}
		b.endBlock()
		want = append(want, block)
	}
	if n := b.addBlock([]byte("alone")); n != len(want) || b.err != nil {
		t.Fatalf("block %d, error %v", n, b.err)
	}
	want = append(want, []byte("alone"))
	if cap(b.block) > 2*pieceBytes {
		t.Errorf("%d bytes are held", cap(b.block))
	}
	reader := &Reader{index: bytes.NewReader(out.Bytes()), indexSize: int64(out.Len())}
	for i, e := range b.blocks {
		if e.raw != len(want[i]) {
			t.Fatalf("block %d has %d bytes, want %d", i, e.raw, len(want[i]))
		}
		for _, whole := range []int{wholeBlock, 1 << 10} {
			var in blockReader
			if err := in.open(reader, e, whole); err != nil {
				t.Fatal(err)
			}
			var got []byte
			for more := true; more; {
				got = append(got, in.in.b...)
				var err error
				if more, err = in.fill(nil); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, want[i]) {
				t.Errorf("block %d of %d bytes is another one in parts of %d", i, e.raw, whole)
			}
		}
	}
}

// failing fails after some bytes.
type failing struct{ left int }

var errFull = errors.New("the disk is full")

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// An error of writing the index ends the merge, wherever it happens.
func TestIndexNotWritten(t *testing.T) {
	in := []Source{encode(t, partsHead(t, 0, 3000)), encode(t, partsHead(t, 1500, 3000))}
	var data, index bytes.Buffer
	if _, err := Merge(&data, &index, in); err != nil {
		t.Fatal(err)
	}
	for left := 0; left < index.Len(); left += 1 + index.Len()/50 {
		if _, err := Merge(&data, &failing{left: left}, in); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
}
