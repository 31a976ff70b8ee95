package address_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store/temporal"
	"github.com/casys-ai/pml/store/temporal/address"
)

func options(t *testing.T, text string, environ map[string]string) (temporal.Options, error) {
	t.Helper()
	at, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return address.Options(at, "/home/.pml", func(name string) (string, bool) { v, ok := environ[name]; return v, ok })
}

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := options(t, "temporal://h:1/ns", nil)
	if err != nil || o.Address != "h:1" || o.Namespace != "ns" || o.Name != "pml" || o.Blobs != temporal.Folder("/home/.pml/temporal-blobs") || o.TLS != nil || o.APIKey != nil || o.Keys != nil {
		t.Errorf("%+v %v", o, err)
	}
	if o, err := options(t, "temporal://[::1]/ns", nil); err != nil || o.Address != "[::1]:7233" {
		t.Errorf("%+v %v", o, err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("a:"+"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err = options(t, "temporal://h/ns?name=team-a&blobs=/srv/b&tls=on&tls-name=other&keys="+url.QueryEscape(file), map[string]string{address.KeyVariable: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := o.APIKey(t.Context())
	if o.Address != "h:7233" || o.Name != "team-a" || o.Blobs != temporal.Folder("/srv/b") || len(o.Keys) != 1 || o.TLS == nil || o.TLS.ServerName != "other" || key != "secret" || err != nil {
		t.Errorf("%+v %q %v", o, key, err)
	}
}

func TestOptions_Refused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"temporal://h/ns/more":                 "one word",
		"temporal://h/ns?blob=/b":              "no such parameter",
		"temporal://h/ns?blobs=b":              "absolute",
		"temporal://h/ns?name=a'b":             "letters",
		"temporal://h/ns?tls=yes":              "on or off",
		"temporal://h/ns?tls=off&tls-name=x":   "files for it",
		"temporal://h/ns?tls-cert=/c":          "belong together",
		"temporal://h/ns?tls-ca=/not/there":    "tls-ca",
		"temporal://h/ns?name=a&name=b":        "twice",
		"temporal://h/ns?keys=/not/there/keys": "cannot read the keys",
		"temporal://h/ns#x":                    "#",
	} {
		_, err := options(t, text, nil)
		if err == nil || !strings.Contains(all(err), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err := options(t, "temporal://h/ns", map[string]string{address.KeyVariable: "very-secret"})
	if err == nil || !strings.Contains(all(err), "tls=on") || strings.Contains(all(err), "very-secret") {
		t.Errorf("a key in clear: %v", err)
	}
}

// all is an error with what it finds wrong.
func all(err error) string {
	text := err.Error()
	for _, f := range core.AsError(err).Faults {
		text += "\n" + f.Message
	}
	return text
}
