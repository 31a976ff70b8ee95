package temporal_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/engine/enginetest"
	"github.com/casys-ai/pml/store/temporal"
)

// found looks at an installation, and returns the findings by their names.
func found(t *testing.T, opts temporal.Options) map[string]api.Check {
	t.Helper()
	list, err := temporal.Check(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]api.Check{}
	for _, c := range list {
		if _, twice := all[c.Name]; twice || c.Detail == "" || strings.Contains(c.Detail, "\n") {
			t.Errorf("%+v", c)
		}
		all[c.Name] = c
	}
	return all
}

// want wants the state of a finding, and a text in its detail.
func want(t *testing.T, all map[string]api.Check, name, status, detail string) {
	t.Helper()
	if c := all[name]; c.Status != status || !strings.Contains(c.Detail, detail) {
		t.Errorf("%s is %+v, want %s with %q", name, c, status, detail)
	}
}

// fresh are options with a namespace of their own, which is not begun.
func fresh(t *testing.T) temporal.Options {
	t.Helper()
	opts := options(t)
	opts.Namespace, opts.Logger = fmt.Sprint("ns-", enginetest.NewID().Short()), slog.New(slog.DiscardHandler)
	return opts
}

// TestCheck: what is right is said to be, before the first process and beside one, and nothing is left behind.
func TestCheck(t *testing.T) {
	t.Parallel()
	opts, dir := fresh(t), t.TempDir()
	opts.Blobs, opts.Keys = temporal.Folder(dir), keys("a", "b")
	none := found(t, opts)
	want(t, none, "temporal namespace", "fail", opts.Namespace)
	if next := strings.Join(none["temporal namespace"].Next, " "); next != "temporal operator namespace create --namespace "+opts.Namespace+" --retention 168h" {
		t.Errorf("next: %s", next)
	}
	if _, also := none["temporal search attributes"]; also {
		t.Error("it looks into a namespace that is not there")
	}
	for range 2 { // again it changes nothing
		if err := temporal.Prepare(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
	}
	right := func(installation string) {
		t.Helper()
		all := found(t, opts)
		for name, detail := range map[string]string{
			"temporal": "Temporal 1.", "temporal namespace": opts.Namespace, "temporal retention": "168h", "temporal search attributes": "all 7",
			"temporal clock": "from the server's", "temporal installation": installation, "temporal blobs": "can be written",
		} {
			want(t, all, name, "ok", detail)
		}
		want(t, all, "temporal database", "warn", "SQLite is for development")
	}
	right("not begun yet")
	if n := files(t, dir, ""); n != 0 {
		t.Errorf("%d files are left", n)
	}
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	right("writes with the key a")
	if err := s.Commit(t.Context(), begun(newRun(time.Now()))); err != nil {
		t.Error(err)
	}
}

// TestCheck_NotOfIt: a process with other blobs or other keys than the installation is told, and opens nothing.
func TestCheck_NotOfIt(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Keys = keys("a")
	s := open(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	for name, c := range map[string]struct {
		change func(*temporal.Options)
		code   core.Code
		says   string
	}{
		"OtherBlobs": {func(o *temporal.Options) { o.Blobs = temporal.Folder(t.TempDir()) }, core.CodeStoreFailed, "every process needs the same folder"},
		"OtherKey":   {func(o *temporal.Options) { o.Keys = keys("b") }, core.CodeStoreKey, "the key a,"},
		"NoKey":      {func(o *temporal.Options) { o.Keys = nil }, core.CodeStoreKey, "no keys here"},
	} {
		other := opts
		c.change(&other)
		want(t, found(t, other), "temporal installation", "fail", c.says)
		if _, err := temporal.Open(t.Context(), other); core.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	opts.Keys = append(keys("a"), keys("a")...)
	want(t, found(t, opts), "temporal keys", "fail", "two keys a")
}

// TestCheck_Namespace: short retention, missing attributes and those of another type are told, and who would open the store with
// them is refused.
func TestCheck_Namespace(t *testing.T) {
	t.Parallel()
	for days, status := range map[float64]string{0.5: "fail", 1: "warn", 3: "warn", 7: "ok", 30: "ok"} {
		c := temporal.CheckRetention("x", time.Duration(days*24)*time.Hour)
		if c.Status != status || (status == "ok") != (len(c.Next) == 0) {
			t.Errorf("%v days: %+v", days, c)
		}
	}
	opts := fresh(t)
	if err := temporal.BeginNamespace(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	want(t, found(t, opts), "temporal search attributes", "fail", "7 of 7 are missing")
	c := raw(t, opts)
	_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
		Namespace: opts.Namespace, SearchAttributes: map[string]enumspb.IndexedValueType{"PmlTodo": enumspb.INDEXED_VALUE_TYPE_INT},
	})
	if err != nil {
		t.Fatal(err)
	}
	const says = "PmlTodo is Int and must be Keyword"
	for deadline := time.Now().Add(enginetest.Hung); !strings.Contains(found(t, opts)["temporal search attributes"].Detail, says); {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", found(t, opts)["temporal search attributes"])
		}
	}
	if err := temporal.Prepare(t.Context(), opts); core.CodeOf(err) != core.CodeStoreFailed || !strings.Contains(err.Error(), says) {
		t.Errorf("prepared: %v", err)
	}
	if _, err := temporal.Open(t.Context(), opts); core.CodeOf(err) != core.CodeStoreFailed || !strings.Contains(err.Error(), says) {
		t.Errorf("opened: %v", err)
	}
}

// ahead is a clock that is wrong.
type ahead time.Duration

func (a ahead) Now() time.Time { return time.Now().Add(time.Duration(a)) }

// TestCheck_Machine: a clock that is wrong, blobs that cannot be written and a server that is away are told; where the
// server is away nothing is said of what it has.
func TestCheck_Machine(t *testing.T) {
	t.Parallel()
	opts := options(t)
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		opts.Clock = ahead(by)
		want(t, found(t, opts), "temporal clock", "warn", "h0m")
	}
	opts.Clock = wall{}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	opts.Blobs = temporal.Folder(file)
	want(t, found(t, opts), "temporal blobs", "fail", "look at the space and the rights")
	opts.Address, opts.Blobs, opts.Logger = "127.0.0.1:1", temporal.Folder(t.TempDir()), slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Hung)
	defer cancel()
	list, err := temporal.Check(ctx, opts)
	if err != nil || len(list) != 2 || list[0].Status != "fail" || list[1].Status != "ok" {
		t.Errorf("%+v %v", list, err)
	}
	cancel()
	if list, err := temporal.Check(ctx, opts); core.CodeOf(err) != core.CodeCancelled || list != nil {
		t.Errorf("%+v %v", list, err)
	}
}

func TestCheck_Version(t *testing.T) {
	t.Parallel()
	var older []string
	for _, v := range []string{"1.28.9", "0.99.0", "1.29.0", "1.29.1", "1.30.0", "2.0.0", "", "cloud", "1.x.1", "1.9.0"} {
		if temporal.Older(v, "1.29.1") {
			older = append(older, v)
		}
	}
	if !slices.Equal(older, []string{"1.28.9", "0.99.0", "1.9.0"}) {
		t.Errorf("%q", older)
	}
}
