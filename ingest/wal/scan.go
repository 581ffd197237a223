package wal

import (
	"bytes"
	"errors"
	"io"

	"github.com/millstream/millstream"
)

// window is how much a scan reads at a time; its memory is this and one payload.
const window = 1 << 20

// scanner reads the frames of one file in order and resumes after damage.
type scanner struct {
	log   *Log
	file  File
	limit int64          // the end of what counts
	next  millstream.LSN // the least LSN that can come
	below millstream.LSN // LSNs from here on belong to a later file; 0: no bound
	pos   int64
	end   int64 // behind the last valid frame

	buf []byte
	off int64

	reuse   bool // payloads share memory: each is valid until the next read
	scratch []byte

	bad    int64 // where a damaged stretch began, -1: none
	onSkip func(at, length int64, next millstream.LSN)
}

func (l *Log) newScanner(f File, limit int64, first, below millstream.LSN) *scanner {
	return &scanner{log: l, file: f, limit: limit, next: first, below: below, pos: headerSize, end: headerSize, bad: -1, onSkip: func(int64, int64, millstream.LSN) {}}
}

// read gives the next valid frame, io.EOF at the end. The payload is read and verified if want says so, and is then the caller's to keep; else it is nil.
func (s *scanner) read(want func(millstream.LSN) bool) (Frame, error) {
	for {
		f, length, err := s.try(want)
		if err == nil {
			if s.bad >= 0 {
				s.onSkip(s.bad, s.pos-s.bad, f.LSN)
				s.bad = -1
			}
			s.pos += length
			s.end, s.next = s.pos, f.LSN+1
			return f, nil
		}
		if !errors.Is(err, errDamaged) {
			return Frame{}, err
		}
		if s.bad < 0 {
			s.bad = s.pos
		}
		if length > 0 { // the header is whole, so the next frame stands behind the payload
			s.pos += length
		} else if err := s.resync(); err != nil {
			return Frame{}, err
		}
	}
}

// try reads a frame at pos. With errDamaged, a length > 0 says how far a trustworthy header reaches.
func (s *scanner) try(want func(millstream.LSN) bool) (Frame, int64, error) {
	b, err := s.peek(frameSize)
	if err != nil {
		return Frame{}, 0, err
	}
	if len(b) == 0 {
		return Frame{}, 0, io.EOF
	}
	h, ok := peekHead(b)
	if !ok {
		return Frame{}, 0, errDamaged
	}
	if b, err = s.peek(frameSize + h.ids); err != nil {
		return Frame{}, 0, err
	}
	length := int64(frameSize + h.ids + h.payload)
	if len(b) < frameSize+h.ids || h.org > h.ids || s.pos+length > s.limit || !s.log.headValid(b[:frameSize+h.ids]) {
		return Frame{}, 0, errDamaged
	}
	if h.lsn < s.next || (s.below != 0 && h.lsn >= s.below) {
		return Frame{}, length, errDamaged
	}
	f := h.frame(b)
	if want(h.lsn) {
		if f.Payload, err = s.payload(b[frameSize+h.ids:], h); err != nil {
			return Frame{}, length, err
		}
	}
	return f, length, nil
}

func (s *scanner) payload(have []byte, h frameHead) ([]byte, error) {
	p := s.scratch
	if !s.reuse || cap(p) < h.payload {
		p = make([]byte, h.payload)
	}
	if p = p[:h.payload]; s.reuse {
		s.scratch = p
	}
	if n := copy(p, have); n < len(p) {
		if _, err := s.file.ReadAt(p[n:], s.pos+int64(frameSize+h.ids+n)); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, errDamaged
			}
			return nil, err
		}
	}
	if !s.log.payloadValid(h, p) {
		return nil, errDamaged
	}
	return p, nil
}

// resync moves to the next place that looks like a frame.
func (s *scanner) resync() error {
	s.pos++
	for {
		b, err := s.peek(len(frameMagic))
		if err != nil {
			return err
		}
		if i := bytes.Index(b, []byte(frameMagic)); i >= 0 {
			s.pos += int64(i)
			return nil
		}
		if len(b) < len(frameMagic) {
			s.pos = s.limit
			return nil
		}
		s.pos += int64(len(b) - len(frameMagic) + 1)
	}
}

// peek gives the bytes from pos on: at least n unless the limit comes before. They are valid until the next call.
func (s *scanner) peek(n int) ([]byte, error) {
	if have := s.off + int64(len(s.buf)) - s.pos; s.pos >= s.off && (have >= int64(n) || s.pos+have == s.limit && have > 0) {
		return s.buf[s.pos-s.off:], nil
	}
	size := min(int64(max(n, window)), s.limit-s.pos)
	if size <= 0 {
		return nil, nil
	}
	if int64(cap(s.buf)) < size {
		s.buf = make([]byte, size)
	}
	s.buf, s.off = s.buf[:size], s.pos
	got, err := s.file.ReadAt(s.buf, s.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if int64(got) < size { // the file is shorter than believed
		s.buf, s.limit = s.buf[:got], s.pos+int64(got)
	}
	return s.buf, nil
}
