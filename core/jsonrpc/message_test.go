package jsonrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/jsonrpc"
)

// The id of what is not read whole is found, or none is made up.
func TestIDOf(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20_000)
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"params":` + deep:             `7`,
		`{"params":[{"id":1}],"id":"a\"b","x":` + deep:         `"a\"b"`,
		`{"id":{"id":1},"params":` + deep:                      ``,
		`{"id":1 2,"params":` + deep:                           `12`, // it is read byte by byte
		`{"id":nonsense,"params":` + deep:                      ``,
		`{"id":"` + strings.Repeat("x", 500) + `","params":[]`: ``,
		deep: ``,
	} {
		if got := jsonrpc.IDOf([]byte(in)); string(got) != want {
			t.Errorf("%.60s: %s, want %s", in, got, want)
		}
	}
}

// An answer is one line, whatever it holds; what cannot be written is an error.
func TestResponse_Encode(t *testing.T) {
	t.Parallel()
	id := json.RawMessage(`9007199254740993`)
	for _, tt := range []struct {
		in   *jsonrpc.Response
		want string
	}{
		{&jsonrpc.Response{ID: id, Result: json.RawMessage("{\n\"a\": 1.0}")}, `{"jsonrpc":"2.0","id":9007199254740993,"result":{"a":1.0}}`},
		{&jsonrpc.Response{ID: id, Result: struct{}{}}, `{"jsonrpc":"2.0","id":9007199254740993,"result":{}}`},
		{jsonrpc.Refuse(nil, -1, "x").With(map[string]int{"n": 1}), `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x","data":{"n":1}}}`},
		{&jsonrpc.Response{ID: id, Result: func() {}}, `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32603,"message":"the answer cannot be encoded"}}`},
	} {
		if got := string(tt.in.Encode()); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// Who waits gets the answer to its own request, however the id is written.
func TestCalls(t *testing.T) {
	t.Parallel()
	var calls jsonrpc.Calls
	says := func(id string) func() error {
		return func() error {
			m, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":1}`))
			calls.Answered(m)
			return nil
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	over := make(chan struct{})
	close(over)
	for _, tt := range []struct {
		ctx       context.Context
		id, said  string
		over      chan struct{}
		wantError error
	}{
		{t.Context(), `1`, `1.0`, nil, nil},
		{t.Context(), `"a"`, `"\u0061"`, nil, nil},
		{ended, `1`, `1`, nil, nil}, // it came as its caller gave up
		{ended, `1`, `2`, nil, context.Canceled},
		{t.Context(), `1`, `"1"`, over, jsonrpc.ErrClosed},
	} {
		m, err := calls.Do(tt.ctx, json.RawMessage(tt.id), 1, tt.over, says(tt.said))
		if !errors.Is(err, tt.wantError) || err == nil && string(m.ID) != tt.said {
			t.Errorf("%s answered as %s: %s, %v", tt.id, tt.said, m.Text, err)
		}
	}
	_, err := calls.Do(t.Context(), json.RawMessage(`1`), 1, nil, func() error {
		_, err := calls.Do(t.Context(), json.RawMessage(`2`), 1, nil, func() error { return nil })
		return err
	})
	if !errors.Is(err, jsonrpc.ErrTooMany) {
		t.Errorf("a second one: %v", err)
	}
}

// A request is cancelled by its id, alone; after the end none begins.
func TestServed(t *testing.T) {
	t.Parallel()
	var served jsonrpc.Served
	why := errors.New("why")
	number, done, err := served.Begin(t.Context(), json.RawMessage(`7`), 2)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := served.Begin(t.Context(), json.RawMessage(`"7"`), 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := served.Begin(t.Context(), json.RawMessage(`7`), 3); !errors.Is(err, jsonrpc.ErrSameID) {
		t.Errorf("the same id: %v", err)
	}
	if _, _, err := served.Begin(t.Context(), json.RawMessage(`8`), 2); !errors.Is(err, jsonrpc.ErrTooMany) {
		t.Errorf("a third one: %v", err)
	}
	served.Cancel(json.RawMessage(`7`), why)
	if !errors.Is(context.Cause(number), why) || text.Err() != nil {
		t.Errorf("cancelled: %v, %v", context.Cause(number), text.Err())
	}
	done()
	served.End(why)
	_, _, err = served.Begin(t.Context(), json.RawMessage(`9`), 2)
	if !errors.Is(err, why) || !errors.Is(context.Cause(text), why) || served.Len() != 1 {
		t.Errorf("after the end: %v, %v, %d", err, context.Cause(text), served.Len())
	}
}
