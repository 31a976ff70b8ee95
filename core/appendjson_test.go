package core_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/casys-ai/pml/core"
)

// appender is a value with an encoding of its own.
type appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// sameAsJSON compares the encoding of a value with that of encoding/json.
func sameAsJSON(t *testing.T, v appender) {
	t.Helper()
	want, wantErr := json.Marshal(v)
	got, err := v.AppendJSON([]byte("before "))
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("AppendJSON of %+v: error %v, encoding/json: %v", v, err, wantErr)
	}
	if err == nil && string(got) != "before "+string(want) {
		t.Errorf("AppendJSON:\n%s\nencoding/json:\n%s", got, want)
	}
}

// fill sets all that can be set in a value, so that a field that an encoding
// leaves out is noticed. n makes values differ.
func fill(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(n)*1e6, int64(n)).UTC()))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"a": "<b>"}`)))
		return
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString("text" + string(rune('a'+n%26)))
	case v.CanInt():
		v.SetInt(int64(n + 1))
	case v.CanFloat():
		v.SetFloat(float64(n) + 0.125)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n+i)
			}
		}
	}
}

func TestAppendJSON_IsThatOfEncodingJSON(t *testing.T) {
	t.Parallel()
	for n := range 30 {
		for _, v := range []appender{&core.Event{}, &core.Record{}, &core.Run{}} {
			sameAsJSON(t, v) // everything that can be left out is
			fill(reflect.ValueOf(v).Elem(), n)
			sameAsJSON(t, v)
		}
	}
}

func TestAppendJSON_Errors(t *testing.T) {
	t.Parallel()
	far := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, v := range []appender{
		&core.Event{DurationMS: math.NaN()}, &core.Event{At: far}, &core.Event{Data: json.RawMessage("{")},
		&core.Record{At: far}, &core.Record{Args: json.RawMessage("x")},
		&core.Run{CreatedAt: far}, &core.Run{ActiveMS: math.Inf(1)}, &core.Run{Options: core.RunOptions{Input: json.RawMessage("[")}},
		&core.Run{ExpiresAt: &far}, &core.Run{Abort: &core.AbortRequest{At: far}},
	} {
		if got, err := v.AppendJSON(nil); err == nil {
			t.Errorf("AppendJSON of %+v = %s, want an error", v, got)
		}
		sameAsJSON(t, v)
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("plain", int64(1), 0.5, int64(0), 0)
	f.Add("\x00\x1f\x7f \"quoted\\\" <a&b> \u2028 \xff é", int64(-1), math.Copysign(0, -1), int64(1<<40), 3600)
	f.Add("", int64(math.MinInt64), 1e21, int64(-1<<50), -1)
	f.Add("x", int64(math.MaxInt64), 1e-7, int64(253402300800), 24*3600)
	f.Fuzz(func(t *testing.T, text string, n int64, x float64, seconds int64, zone int) {
		at := time.Unix(seconds, n%1e9).In(time.FixedZone("", zone%(30*3600)))
		layer := int(n)
		sameAsJSON(t, &core.Event{
			Seq: n, Type: core.EventType(text), At: at, RunID: core.ID(text), TaskID: text, Tool: text, Layer: &layer, DurationMS: x, Message: text,
		})
		sameAsJSON(t, &core.Record{Seq: n, CallID: text, Tool: text, Layer: layer, Attempt: layer, ArgsDigest: text, StartedAt: at, At: at})
		sameAsJSON(t, &core.Run{
			ID: core.ID(text), Workspace: text, Intent: text, CreatedAt: at, ExpiresAt: &at, ActiveMS: x, Epoch: n,
			Options: core.RunOptions{TimeoutMS: n, HIL: core.HIL(text)}, RequestedBy: core.Actor{Who: text, Via: core.Via(text)},
		})
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	layer := 3
	e := core.Event{Seq: 12345, Type: core.EventTaskComplete, At: time.Unix(1e9, 5e8).UTC(), RunID: "5e3b6d7c-9a43-4d0e-8f9f-0a8c6f1f2d3e", TaskID: "t1_2", Tool: "fs:read", Layer: &layer, DurationMS: 0.25}
	b.Run("Own", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 512)
		for b.Loop() {
			buf, _ = e.AppendJSON(buf[:0])
		}
	})
	b.Run("EncodingJSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(&e)
		}
	})
}
