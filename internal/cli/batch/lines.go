package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line that is taken, in bytes, without its end.
const MaxLine = 1 << 20

// A LineError says what is wrong with one line.
type LineError struct {
	N   int64 // counted from 1
	Err error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.N, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Lines reads lines of bounded length.
type Lines struct {
	r   *bufio.Reader
	n   int64
	buf []byte // a line that is longer than the reader's buffer
}

// NewLines reads from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReaderSize(r, 64<<10)} }

var byteOrderMark = []byte("\xef\xbb\xbf")

// Next returns the next line that is not blank, and its number. The line is
// valid until the next call. At the end it returns io.EOF; a line that is too
// long is a *LineError, after which reading goes on behind it.
func (l *Lines) Next() (line []byte, n int64, err error) {
	for {
		line, size, err := l.read()
		if err != nil {
			return nil, l.n, err
		}
		if size > MaxLine {
			return nil, l.n, &LineError{l.n, fmt.Errorf("has %d bytes, the most is %d: keep large data elsewhere and send where it is", size, MaxLine)}
		}
		if l.n == 1 {
			line = bytes.TrimPrefix(line, byteOrderMark)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, l.n, nil
		}
	}
}

// read returns one line without its end, and its size; beyond MaxLine only the
// size is right.
func (l *Lines) read() (line []byte, size int, err error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		switch {
		case err == nil:
			l.n++
			part, size = part[:len(part)-1], size-1
			if len(l.buf) > 0 && size <= MaxLine {
				return append(l.buf, part...), size, nil
			}
			return part, size, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if size <= MaxLine {
				l.buf = append(l.buf, part...)
			}
		case errors.Is(err, io.EOF):
			if size == 0 {
				return nil, 0, io.EOF
			}
			l.n++
			return append(l.buf, part...), size, nil
		default:
			return nil, 0, fmt.Errorf("reading line %d: %w", l.n+1, err)
		}
	}
}
