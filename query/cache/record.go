package cache

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"

	"github.com/zeebo/blake3"
)

// sum is the checksum of a block, taken when it was fetched. Zero: the block is not there.
type sum [12]byte

func sumOf(p []byte) (s sum) {
	full := blake3.Sum256(p)
	copy(s[:], full[:])
	return s
}

// A record says which blocks of a data file are there, and their checksums: a header, then 16 bytes a block, of which the last four are the CRC-32C of the others
// and the block's number. An entry is written after its block and neither is synced: what a crash tears or loses fails one of the two checksums, and the block
// counts as missing.
const (
	recordMagic  = "MSBLOCK1"
	recordHeader = 24 // magic, size of the extent, size of a block, checksum
	recordEntry  = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func recordHead(length int64) []byte {
	p := binary.LittleEndian.AppendUint64([]byte(recordMagic), uint64(length))
	p = binary.LittleEndian.AppendUint32(p, blockSize)
	return binary.LittleEndian.AppendUint32(p, crc32.Checksum(p, castagnoli))
}

func entrySum(i int, s sum) uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint32(s[:], uint32(i)), castagnoli)
}

// readRecord gives the checksums of an extent's blocks, zeros without a usable record.
func readRecord(path string, length int64, blocks int) ([]sum, error) {
	sums := make([]sum, blocks)
	p, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sums, nil
	}
	if err != nil || len(p) < recordHeader || string(p[:recordHeader]) != string(recordHead(length)) {
		return sums, err
	}
	p = p[recordHeader:]
	for i := 0; i < blocks && len(p) >= recordEntry; i++ {
		var s sum
		if copy(s[:], p); binary.LittleEndian.Uint32(p[len(s):]) == entrySum(i, s) {
			sums[i] = s
		}
		p = p[recordEntry:]
	}
	return sums, nil
}

// openRecord opens the record for writing and writes its header.
func openRecord(path string, length int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(recordHead(length), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// writeRecord writes a block's entry; a zero sum takes the block out.
func writeRecord(f *os.File, i int, s sum) error {
	p := binary.LittleEndian.AppendUint32(s[:len(s):len(s)], entrySum(i, s))
	if s == (sum{}) {
		clear(p)
	}
	_, err := f.WriteAt(p, recordHeader+int64(i)*recordEntry)
	return err
}
