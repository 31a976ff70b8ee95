package temporal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// encrypted is the format of what pml has encrypted: a payload's encoding, and what a blob begins with. Another
// format is another name.
const encrypted = "binary/pml-encrypted-1"

// What is encrypted is of one kind and of one scope, and can be read as nothing else: a payload is of a workflow, a
// blob of a run, of a flow or of a workflow.
const (
	ofPayload = "payload"
	ofBlob    = "blob"
)

// ring encrypts with the first key of an installation, and decrypts with all of them. Each scope has a key
// of its own, derived from that: AES-GCM with nonces of chance is good for 2^32 texts with one key, which is a few months of
// all runs together and never reached by one of them.
type ring struct {
	first string
	keys  map[string]Key // by label
}

func newRing(keys Keys) (*ring, error) {
	r := &ring{keys: map[string]Key{}}
	var faults []core.Fault
	for i, k := range keys {
		if wrong := k.wrong(keys[:i]); wrong != "" {
			faults = append(faults, core.Fault{Message: wrong})
			continue
		}
		r.keys[k.label()] = k
	}
	if len(faults) > 0 {
		return nil, unusable("", faults)
	}
	r.first = keys[0].label()
	return r, nil
}

// label names a key by its id and a print of its bytes, so that another key of the same id is known for another one.
func (k Key) label() string { return k.ID + "/" + hex.EncodeToString(k.derive("print", "", 8)) }

func (k Key) derive(what, scope string, n int) []byte {
	out, err := hkdf.Key(sha256.New, k.Secret[:], nil, "pml "+what+"\x00"+scope, n)
	if err != nil {
		panic(err) // 255 times 32 bytes are too many, and nothing else is wrong
	}
	return out
}

// of is the key of a scope, and another one for what is to have the same nonce each time.
func (k Key) of(what, scope string) (aead cipher.AEAD, again []byte) {
	raw := k.derive(what, scope, 64)
	block, err := aes.NewCipher(raw[:32])
	if err == nil {
		aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	return aead, raw[32:]
}

// seal encrypts a payload of a scope, and says with which key.
func (r *ring) seal(scope string, plain []byte) (label string, sealed []byte) {
	aead, _ := r.keys[r.first].of(ofPayload, scope)
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return r.first, aead.Seal(nonce, nonce, plain, bound(r.first))
}

// sealBlob encrypts a blob. The same one becomes the same again, whose nonce comes from what it says: so a blob that is put
// once more is the one that is there.
func (r *ring) sealBlob(scope string, plain []byte) []byte {
	aead, again := r.keys[r.first].of(ofBlob, scope)
	mac := hmac.New(sha256.New, again)
	_, _ = mac.Write(plain)
	head := bound(r.first)
	nonce := mac.Sum(nil)[:aead.NonceSize()]
	return aead.Seal(append(slices.Clone(head), nonce...), nonce, plain, head)
}

// bound is what is in clear and bound to what was encrypted: its format and the label of its key. What it
// belongs to is bound by the key, which is the scope's.
func bound(label string) []byte { return []byte(encrypted + "\n" + label + "\n") }

// open decrypts what was encrypted with a key as being of a kind and a scope.
func (r *ring) open(what, scope, label string, sealed []byte) ([]byte, error) {
	key, ok := r.keys[label]
	if !ok {
		return nil, r.missing(label)
	}
	aead, _ := key.of(what, scope)
	if n := aead.NonceSize(); len(sealed) >= n {
		if plain, err := aead.Open(nil, sealed[:n], sealed[n:], bound(label)); err == nil {
			return plain, nil
		}
	}
	return nil, core.Errorf(core.CodeStoreFailed, "a %s of %s is damaged, or somebody without the key %s has changed it or put it there", what, scope, key.ID)
}

// openBlob decrypts a blob.
func (r *ring) openBlob(scope string, raw []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(raw, []byte(encrypted+"\n"))
	label, sealed, whole := bytes.Cut(rest, []byte("\n"))
	if !ok || !whole {
		return nil, unencrypted(ofBlob, scope)
	}
	return r.open(ofBlob, scope, string(label), sealed)
}

// unencrypted refuses what is in clear where all that pml writes is encrypted: so nobody who has no key says
// anything in pml's name.
func unencrypted(what, scope string) error {
	return core.Errorf(core.CodeStoreFailed, "a %s of %s is not encrypted as all that pml writes there is: somebody else has put it there", what, scope)
}

// missing is the error of a key that is not in the ring, which is nil where there are no keys.
func (r *ring) missing(label string) *core.Error {
	label = core.Visible(label, keyIDLimit+20, false)
	id, theirs, _ := strings.Cut(label, "/")
	const add = "; give this process the file of keys that the others have, and leave no key out while anything is there that was written with it"
	if r == nil {
		return core.Errorf(core.CodeStoreKey, "what is kept in Temporal is encrypted with the key %s, and there are no keys here"+add, id)
	}
	for _, k := range r.keys {
		if k.ID == id {
			_, ours, _ := strings.Cut(k.label(), "/")
			return core.Errorf(core.CodeStoreKey, "what is kept in Temporal is encrypted with another key %s than the one that is here (its print is %s, this one's %s)"+add, id, theirs, ours)
		}
	}
	return core.Errorf(core.CodeStoreKey, "what is kept in Temporal is encrypted with the key %s, which is not among the keys here"+add, id)
}

// encryptedBlobs are blobs of which nobody reads more than how large they are and what they are of.
type encryptedBlobs struct {
	Blobs
	ring *ring
}

// Put implements Blobs; the digest is that of what lies there.
func (b encryptedBlobs) Put(of string, raw []byte) (string, error) {
	return b.Blobs.Put(of, b.ring.sealBlob(of, raw))
}

// Get implements Blobs.
func (b encryptedBlobs) Get(of, digest string) ([]byte, error) {
	raw, err := b.Blobs.Get(of, digest)
	if err != nil {
		return nil, err
	}
	return b.ring.openBlob(of, raw)
}
