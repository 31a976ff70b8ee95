package client

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/casys-ai/pml/core"
)

func TestScanner(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     []frame
	}{
		{"One", "id: 1\nevent: x\ndata: {}\n\n", []frame{{"1", "x", []byte("{}")}}},
		{"CRLF", "id:1\r\ndata:a\r\n\r\ndata:b\r\n\r\n", []frame{{"1", "", []byte("a")}, {"", "", []byte("b")}}},
		{"CR", "data: a\r\rdata: b\r\r", []frame{{"", "", []byte("a")}, {"", "", []byte("b")}}},
		{"Lines", "data: a\ndata: b\ndata:\n\n", []frame{{"", "", []byte("a\nb\n")}}},
		{"Comments", ": hi\n\n: hi\ndata: a\n: hi\n\n", []frame{{"", "", []byte("a")}}},
		{"OneSpaceOnly", "data:  a\n\n", []frame{{"", "", []byte(" a")}}},
		{"Mark", "\ufeffdata: a\n\n", []frame{{"", "", []byte("a")}}},
		{"Unknown", "retry: 10\nfoo\ndata\n\n", []frame{{"", "", nil}}},
		{"Torn", "data: a\n\ndata: b\n", []frame{{"", "", []byte("a")}}},
	}
	for _, tt := range tests {
		for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
			s := newScanner(r, 1000)
			for _, want := range tt.want {
				got, err := s.next()
				if err != nil || got.id != want.id || got.event != want.event || string(got.data) != string(want.data) {
					t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, want)
				}
			}
			if f, err := s.next(); err == nil {
				t.Errorf("%s: one more: %+v", tt.name, f)
			}
		}
	}
}

func TestScanner_Bounded(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"data: " + strings.Repeat("x", 2000), strings.Repeat("data: xxxx\n", 200), strings.Repeat("x", 2000)} {
		s := newScanner(strings.NewReader(in), 1000)
		if _, err := s.next(); core.CodeOf(err) != core.CodeResultTooLarge {
			t.Errorf("%.20q…: %v", in, err)
		}
	}
	// Heartbeats do not add up.
	s := newScanner(strings.NewReader(strings.Repeat(": heartbeat\n\n", 1000)+"data: a\n\n"), 100)
	if f, err := s.next(); err != nil || string(f.data) != "a" {
		t.Errorf("%+v, %v", f, err)
	}
}

// FuzzScanner: whatever comes, messages stay within the bound and it ends.
func FuzzScanner(f *testing.F) {
	f.Add("id: 1\nevent: x\ndata: {}\n\n")
	f.Add("data: a\r\rdata\r\n: c\n\n\ufeff\x00")
	f.Fuzz(func(t *testing.T, in string) {
		const limit = 64
		s := newScanner(strings.NewReader(in), limit)
		for range len(in) + 1 {
			got, err := s.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && core.CodeOf(err) != core.CodeResultTooLarge {
					t.Errorf("error %v", err)
				}
				return
			}
			if n := len(got.id) + len(got.event) + len(got.data); n > limit {
				t.Errorf("a message of %d bytes", n)
			}
		}
		t.Error("more messages than bytes")
	})
}
