package rpc

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// FuzzReadWrite compares our reading of a WriteRequest with the library's, and decodes what batches there are: neither may fail in another way than by an error.
func FuzzReadWrite(f *testing.F) {
	for _, bs := range [][]*millstream.Batch{nil, {logs(3, 1)}, {logs(1, 1), logs(2, 2)}} {
		reqs, err := encode(bs, limits{1 << 20, 1 << 20})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(*reqs[0].buf)
	}
	f.Add([]byte{0x0a, 0x03, 0x1a, 0x81, 0x00})
	f.Add([]byte{0x0b, 0x0c, 0x10, 0x01, 0x0a, 0x00})
	f.Fuzz(func(t *testing.T, p []byte) {
		var ours, theirs rpcpb.WriteRequest
		err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(p)}, &ours)
		if terr := proto.Unmarshal(p, &theirs); terr != nil { // they also check UTF-8
			return
		}
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		if len(ours.GetParts()) != len(theirs.GetParts()) {
			t.Fatalf("%d parts, want %d", len(ours.GetParts()), len(theirs.GetParts()))
		}
		for i, part := range ours.GetParts() {
			if want := theirs.GetParts()[i]; part.GetOrg() != want.GetOrg() || part.GetName() != want.GetName() || string(part.GetBatch()) != string(want.GetBatch()) {
				t.Fatalf("part %d is %v, want %v", i, part, want)
			}
			if b, err := millstream.DecodeBatch(part.GetBatch()); err == nil {
				_ = b.AppendTo(nil)
			}
		}
	})
}
