// Package address reads the address of an installation in Temporal, as --engine of pml takes it:
//
//	temporal://HOST:PORT/NAMESPACE?blobs=FOLDER&keys=FILE&name=NAME&tls=on
//
// It has no secret in it: keys are in files, and the key of Temporal's API is in PML_TEMPORAL_API_KEY.
package address

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store/temporal"
)

// KeyVariable is the variable with the key of Temporal's API.
const KeyVariable = "PML_TEMPORAL_API_KEY"

// known are the parameters of an address.
var known = []string{"blobs", "keys", "name", "tls", "tls-ca", "tls-cert", "tls-key", "tls-name"}

// defaultPort is that of Temporal.
const defaultPort = "7233"

// named are the names of installations: they begin ids and stand in queries.
var named = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// Options are the options of an address. home is pml's own folder, in which the blobs are unless the address says
// where; environ looks variables up. All that is wrong with the address is said together.
func Options(at *url.URL, home string, environ func(string) (string, bool)) (temporal.Options, error) {
	r := reading{q: at.Query(), environ: environ}
	o := temporal.Options{Name: "pml", Namespace: strings.Trim(at.Path, "/")}
	if o.Address = at.Host; at.Port() == "" {
		o.Address = net.JoinHostPort(at.Hostname(), defaultPort)
	}
	r.check(at, o.Namespace)
	if name := r.q.Get("name"); name != "" {
		if o.Name = name; !named.MatchString(name) {
			r.wrong("name: it has 1 to 64 letters, digits, dots, underscores and dashes")
		}
	}
	blobs := r.q.Get("blobs")
	if blobs == "" {
		blobs = filepath.Join(home, "temporal-blobs")
	} else if !filepath.IsAbs(blobs) {
		r.wrong("blobs: the folder must be an absolute path: all servers share it")
	}
	o.Blobs = temporal.Folder(blobs)
	if file := r.q.Get("keys"); file != "" {
		keys, err := temporal.ReadKeys(file)
		if err != nil {
			return o, err
		}
		o.Keys = keys
	}
	o.TLS = r.encryption()
	if key, _ := environ(KeyVariable); key != "" {
		if o.TLS == nil {
			r.wrong("tls: " + KeyVariable + " is sent over TLS only; set tls=on")
		}
		o.APIKey = func(context.Context) (string, error) { return key, nil }
	}
	return o, r.failed()
}

// reading is an address that is being read.
type reading struct {
	q       url.Values
	environ func(string) (string, bool)
	faults  []core.Fault
}

func (r *reading) wrong(text string) { r.faults = append(r.faults, core.Fault{Message: text}) }

// failed is the error of all that is wrong, nil without.
func (r *reading) failed() error {
	if len(r.faults) == 0 {
		return nil
	}
	err := core.Errorf(core.CodeInvalidArguments, "the address of Temporal cannot be used; it is temporal://HOST:PORT/NAMESPACE, with %s behind a question mark", strings.Join(known, ", "))
	err.Faults = r.faults
	return err
}

// check looks at the form of the address.
func (r *reading) check(at *url.URL, namespace string) {
	if strings.Contains(namespace, "/") {
		r.wrong("the namespace is one word behind HOST:PORT/")
	}
	if at.Fragment != "" {
		r.wrong("what is behind # means nothing")
	}
	for name, values := range r.q {
		switch {
		case !slices.Contains(known, name):
			r.wrong(core.Visible(name, 40, false) + ": there is no such parameter" + core.Suggest(name, known))
		case len(values) > 1:
			r.wrong(name + ": it is given twice")
		case values[0] == "":
			r.wrong(name + ": it is empty")
		}
	}
	slices.SortFunc(r.faults, func(a, b core.Fault) int { return strings.Compare(a.Message, b.Message) })
}

// encryption is how the connection is encrypted, nil: not at all.
func (r *reading) encryption() *tls.Config {
	on := false
	switch r.q.Get("tls") {
	case "", "off":
	case "on":
		on = true
	default:
		r.wrong("tls: it is on or off")
	}
	ca, cert, key, name := r.q.Get("tls-ca"), r.q.Get("tls-cert"), r.q.Get("tls-key"), r.q.Get("tls-name")
	if ca+cert+key+name != "" {
		if r.q.Get("tls") == "off" {
			r.wrong("tls: it is off, and files for it are named")
		}
		on = true
	}
	if !on {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	if (cert == "") != (key == "") {
		r.wrong("tls-cert and tls-key belong together: give both")
	} else if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			r.wrong("tls-cert: " + err.Error())
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if ca != "" {
		text, err := os.ReadFile(ca)
		c.RootCAs = x509.NewCertPool()
		if err != nil {
			r.wrong("tls-ca: " + err.Error())
		} else if !c.RootCAs.AppendCertsFromPEM(text) {
			r.wrong("tls-ca: there is no certificate in " + ca)
		}
	}
	return c
}
