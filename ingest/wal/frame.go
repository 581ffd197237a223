package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
)

// A file is a header and frames.
//
//	header  magic 8 · version u32 · crc u32 (of all that follows) · wal id 16 · first lsn u64 · previous file's first lsn u64 · its valid size u64 · created u64
//	frame   magic 4 · crc u32 (rest of the header and the ids) · payload crc u32 · payload length u32 · lsn u64 · time u64 · batch id 16 ·
//	        signal u8 · org length u8 · stream length u8 · 0 · org · stream · payload
//
// Numbers are little-endian, checksums CRC-32C. A frame's checksums start from the WAL's id, so that neither a frame of another WAL nor one that a sender has
// planted in its data is ever taken for one of this log when reading resumes after damage.
const (
	headerSize   = 64
	frameSize    = 52
	fileVersion  = 1
	MaxPayload   = 256 << 20
	fileMagic    = "MSTRMWAL"
	frameMagic   = "\xf5MW\x01" // the last byte is the frame's version
	suffix       = ".wal"
	damageSuffix = ".corrupt"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is what a caller logs: one batch of one stream.
type Entry struct {
	Org     millstream.OrgID
	Stream  millstream.StreamID
	Signal  millstream.Signal
	Batch   millstream.BatchID
	Payload []byte
	Sum     uint32 // checksum of the payload; the log sets it
}

// Frame is an entry in the log.
type Frame struct {
	Entry
	LSN  millstream.LSN
	Time int64 // when it was logged, ns since the epoch
}

type header struct {
	first     millstream.LSN
	prevFirst millstream.LSN // 0: there is no previous file
	prevValid int64          // the previous file is valid up to here; what follows was never acknowledged
	created   int64
}

func (l *Log) appendHeader(dst []byte, h header) []byte {
	start := len(dst)
	dst = append(dst, fileMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, fileVersion)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, l.raw[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.first))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.prevFirst))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.prevValid))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.created))
	b := dst[start:]
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[16:], castagnoli))
	return dst
}

// parseHeader reads a header; one of another WAL or of a newer release is an error, a damaged one gives ok = false.
func (l *Log) parseHeader(name string, b []byte) (h header, ok bool, err error) {
	if len(b) < headerSize || string(b[:8]) != fileMagic || crc32.Checksum(b[16:headerSize], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return header{}, false, nil
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != fileVersion {
		return header{}, false, millstream.Errorf(millstream.Invalid, "%s has WAL format %d, this release reads %d: start the release that wrote it", name, v, fileVersion)
	}
	if id := uuid.UUID(b[16:32]); id != l.raw {
		return header{}, false, millstream.Errorf(millstream.Invalid, "%s belongs to WAL %s, this directory is WAL %s: move it away", name, id, l.id)
	}
	u := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	return header{first: millstream.LSN(u(32)), prevFirst: millstream.LSN(u(40)), prevValid: int64(u(48)), created: int64(u(56))}, true, nil
}

func frameLength(e *Entry) int { return frameSize + len(e.Org) + len(e.Stream) + len(e.Payload) }

// check refuses what a frame cannot hold.
func (e *Entry) check() error {
	if len(e.Org) > 255 || len(e.Stream) > 255 {
		return millstream.Errorf(millstream.Invalid, "an organization or stream id is longer than 255 bytes")
	}
	if len(e.Payload) > MaxPayload {
		return millstream.Errorf(millstream.TooLarge, "a batch of %d bytes: at most %d; send smaller requests", len(e.Payload), MaxPayload)
	}
	return nil
}

// appendFrame appends the frame but for its payload, which the caller writes next.
func (l *Log) appendFrame(dst []byte, e *Entry, lsn millstream.LSN, now int64) []byte {
	start := len(dst)
	dst = append(dst, frameMagic...)
	dst = append(dst, 0, 0, 0, 0)
	e.Sum = crc32.Update(l.seed, castagnoli, e.Payload)
	dst = binary.LittleEndian.AppendUint32(dst, e.Sum)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Payload)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(lsn))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(now))
	dst = append(dst, e.Batch[:]...)
	dst = append(dst, byte(e.Signal), byte(len(e.Org)), byte(len(e.Stream)), 0)
	dst = append(append(dst, e.Org...), e.Stream...)
	b := dst[start:]
	binary.LittleEndian.PutUint32(b[4:], crc32.Update(l.seed, castagnoli, b[8:]))
	return dst
}

// frameHead is the fixed part of a frame. ids is the length of what stands between it and the payload.
type frameHead struct {
	lsn      millstream.LSN
	time     int64
	sum      uint32
	ids, org int
	payload  int
}

// peekHead reads the fixed part if it could be a frame's start.
func peekHead(b []byte) (frameHead, bool) {
	if len(b) < frameSize || string(b[:4]) != frameMagic {
		return frameHead{}, false
	}
	h := frameHead{
		sum:     binary.LittleEndian.Uint32(b[8:]),
		payload: int(binary.LittleEndian.Uint32(b[12:])),
		lsn:     millstream.LSN(binary.LittleEndian.Uint64(b[16:])),
		time:    int64(binary.LittleEndian.Uint64(b[24:])),
		org:     int(b[49]),
		ids:     int(b[49]) + int(b[50]),
	}
	return h, h.payload <= MaxPayload
}

// headValid checks the header's checksum; b holds the fixed part and the ids.
func (l *Log) headValid(b []byte) bool {
	return l.opt.mutant.skipCRC || crc32.Update(l.seed, castagnoli, b[8:]) == binary.LittleEndian.Uint32(b[4:])
}

func (l *Log) payloadValid(h frameHead, p []byte) bool {
	return l.opt.mutant.skipCRC || crc32.Update(l.seed, castagnoli, p) == h.sum
}

func (h frameHead) frame(b []byte) Frame {
	ids := b[frameSize:]
	f := Frame{LSN: h.lsn, Time: h.time, Entry: Entry{Sum: h.sum}}
	f.Org, f.Stream = millstream.OrgID(ids[:h.org]), millstream.StreamID(ids[h.org:h.ids])
	f.Signal = millstream.Signal(b[48])
	copy(f.Batch[:], b[32:48])
	return f
}

func fileName(first millstream.LSN) string { return fmt.Sprintf("%020d%s", uint64(first), suffix) }
