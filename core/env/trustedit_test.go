package env_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
)

// TestTrustEdit_EveryMoment: before the file is replaced, right after it, and
// when all is done, the workspace is trusted; anything else is not, at no
// moment.
func TestTrustEdit_EveryMoment(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", hostile)
	b.write("pml.lock", `{"version": 1}`)
	b.setTrust(b.trust())
	before, current := b.trust(), b.load()
	after := strings.Replace(hostile, `"allow": ["*"`, `"allow": ["*", "fs:read"`, 1)
	foreign := strings.Replace(hostile, "curl", "wget", 1)
	trusted, err := b.home.TrustEdit(before, current, []byte(after), func() error {
		if !b.trust().Trusted {
			t.Error("before the file is replaced it is not trusted")
		}
		b.write(".pml.json", foreign)
		if b.trust().Trusted {
			t.Error("another content is trusted meanwhile")
		}
		b.write(".pml.json", after)
		if s := b.trust(); !s.Trusted || s.Diff != "" {
			t.Errorf("after the file is replaced: trusted %v, diff %q", s.Trusted, s.Diff)
		}
		return nil
	}, noon)
	if err != nil || !trusted || !b.trust().Trusted {
		t.Fatalf("trusted %v, %v", trusted, err)
	}
	b.write(".pml.json", hostile)
	if b.trust().Trusted {
		t.Error("the content before is still trusted once the edit is done")
	}
}

// TestTrustEdit_KilledOver: what a kill leaves behind is the start of the next
// edit.
func TestTrustEdit_KilledOver(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", hostile)
	b.setTrust(b.trust())
	one := strings.Replace(hostile, `["*"]`, `["*", "a"]`, 1)
	two := strings.Replace(hostile, `["*"]`, `["*", "a", "b"]`, 1)
	kill := errors.New("killed")
	func() {
		defer func() { _ = recover() }()
		_, _ = b.home.TrustEdit(b.trust(), b.load(), []byte(one), func() error {
			b.write(".pml.json", one)
			panic(kill)
		}, noon)
	}()
	if !b.trust().Trusted {
		t.Fatal("a kill behind the write took the trust away")
	}
	trusted, err := b.home.TrustEdit(b.trust(), b.load(), []byte(two), func() error { b.write(".pml.json", two); return nil }, noon)
	if err != nil || !trusted {
		t.Fatalf("trusted %v, %v", trusted, err)
	}
}

func TestTrustEdit_NotCarried(t *testing.T) {
	t.Parallel()
	after := strings.Replace(hostile, `["*"]`, `["*", "a"]`, 1)
	for _, c := range []struct {
		name    string
		prepare func(*box)   // before the person looks
		then    func(b *box) // between the look and the edit
		during  func(b *box) // beside the write
		after   string       // "" is after
		aside   bool         // it is, but for the lock
	}{
		{name: "Untrusted"},
		{name: "ChangedSince", prepare: (*box).trustNow, then: func(b *box) {
			b.write(".pml.json", strings.Replace(hostile, "curl", "wget", 1))
		}},
		{name: "ChangedAndTrustedSince", prepare: (*box).trustNow, then: func(b *box) {
			b.write(".pml.json", strings.Replace(hostile, "curl", "wget", 1))
			b.trustNow()
		}},
		{name: "LockSince", aside: true, prepare: (*box).trustNow, then: func(b *box) { b.write("pml.lock", `{"version": 1, "x": {}}`) }},
		{name: "LockMeanwhile", aside: true, prepare: (*box).trustNow, during: func(b *box) { b.write("pml.lock", `{"version": 1, "x": {}}`) }},
		{name: "FlowMeanwhile", prepare: (*box).trustNow, during: func(b *box) { b.write(".pml/flows/f.json", `{}`) }},
		{name: "OtherFlows", prepare: (*box).trustNow, after: strings.Replace(after, "{", `{"flows": "elsewhere", `, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.write(".pml.json", hostile)
			b.write("elsewhere/evil.json", `{}`)
			if c.prepare != nil {
				c.prepare(b)
			}
			before := b.trust()
			if c.then != nil {
				c.then(b)
			}
			text, wrote := after, false
			if c.after != "" {
				text = c.after
			}
			trusted, err := b.home.TrustEdit(before, b.load(), []byte(text), func() error {
				wrote = true
				b.write(".pml.json", text)
				if c.during != nil {
					c.during(b)
				}
				return nil
			}, noon)
			if err != nil || trusted != c.aside || !wrote {
				t.Errorf("trusted %v, wrote %v, %v", trusted, wrote, err)
			}
			if s := b.trust(); s.Trusted || s.LockAside != c.aside || len(s.Lock) > 0 {
				t.Errorf("what nobody agreed to is trusted: %v %v %s", s.Trusted, s.LockAside, s.Lock)
			}
		})
	}
}

func (b *box) trustNow() { b.setTrust(b.trust()) }

// TestTrustEdit_FailedWrite: what was not written is not trusted afterwards.
func TestTrustEdit_FailedWrite(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.write(".pml.json", hostile)
	b.setTrust(b.trust())
	after := strings.Replace(hostile, `["*"]`, `["*", "a"]`, 1)
	full := core.Errorf(core.CodeStoreFailed, "the disk is full")
	trusted, err := b.home.TrustEdit(b.trust(), b.load(), []byte(after), func() error { return full }, noon)
	if core.CodeOf(err) != core.CodeStoreFailed || trusted || !b.trust().Trusted {
		t.Errorf("trusted %v, %v", trusted, err)
	}
	b.write(".pml.json", after)
	if b.trust().Trusted {
		t.Error("a content that was never written is trusted")
	}
	b.write(".pml.json", hostile)
	_, err = b.home.TrustEdit(b.trust(), b.load(), []byte(`{"what": 1}`), func() error { t.Error("written"); return nil }, noon)
	if core.CodeOf(err) != core.CodeInvalidConfig {
		t.Errorf("a file that cannot be loaded: %v", err)
	}
}

// TestTrustEdit_FromNothing: a workspace without a file grants nothing, which
// needs no trust; what a person agreed to write first is trusted.
func TestTrustEdit_FromNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.MkdirAll(b.work.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	trusted, err := b.home.TrustEdit(b.trust(), b.load(), []byte(hostile), func() error { b.write(".pml.json", hostile); return nil }, noon)
	if err != nil || !trusted || !b.trust().Trusted {
		t.Errorf("trusted %v, %v", trusted, err)
	}
	b.write(".pml.json", strings.Replace(hostile, "curl", "wget", 1))
	if b.trust().Trusted {
		t.Error("another file is trusted")
	}
}
