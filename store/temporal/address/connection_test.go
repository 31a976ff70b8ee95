package address_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/store/temporal"
	"github.com/casys-ai/pml/store/temporal/address"
)

// ears is a service that answers nothing, and remembers which keys it has heard.
type ears struct {
	mu   sync.Mutex
	keys []string
}

func (e *ears) hear(_ any, s grpc.ServerStream) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	md, _ := metadata.FromIncomingContext(s.Context())
	e.keys = append(e.keys, strings.Join(md.Get("authorization"), ","))
	return status.Error(codes.Unimplemented, "it only listens")
}

// take are the keys that were heard since the last time.
func (e *ears) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	keys := e.keys
	e.keys = nil
	return keys
}

// certificate makes a certificate for temporal.test that signs itself, and returns it with the files of it and of its key.
func certificate(t *testing.T) (pair tls.Certificate, cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "temporal.test"}, DNSNames: []string{"temporal.test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certText, keyText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	for file, text := range map[string][]byte{cert: certText, key: keyText} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.X509KeyPair(certText, keyText); err != nil {
		t.Fatal(err)
	}
	return pair, cert, key
}

// TestOptions_Connection: the key of the API goes with each request, to the server whose certificate is the right one and
// nobody else; a server that wants a certificate of its callers gets that.
func TestOptions_Connection(t *testing.T) {
	t.Parallel()
	pair, cert, key := certificate(t)
	_, other, otherKey := certificate(t)
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(cert); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	heard := &ears{}
	s := grpc.NewServer(grpc.UnknownServiceHandler(heard.hear), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(s.Stop)
	with := url.Values{"blobs": {t.TempDir()}, "tls-ca": {cert}, "tls-cert": {cert}, "tls-key": {key}, "tls-name": {"temporal.test"}}
	for name, c := range map[string]struct {
		change url.Values
		hears  bool
	}{
		"Right":             {nil, true},
		"AnotherAuthority":  {url.Values{"tls-ca": {other}}, false},
		"AnotherName":       {url.Values{"tls-name": {"other.test"}}, false},
		"AnotherCaller":     {url.Values{"tls-cert": {other}, "tls-key": {otherKey}}, false},
		"NoCertificate":     {url.Values{"tls-cert": nil, "tls-key": nil}, false},
		"AuthoritiesOfHere": {url.Values{"tls-ca": nil}, false},
	} {
		q := url.Values{}
		for _, from := range []url.Values{with, c.change} {
			maps.Copy(q, from)
		}
		o, err := options(t, "temporal://"+ln.Addr().String()+"/ns?"+q.Encode(), map[string]string{address.KeyVariable: "secret"})
		if err != nil {
			t.Fatal(name, err)
		}
		o.Clock, o.NewID, o.Logger = clock{}, func() core.ID { return "00000000-0000-4000-8000-000000000000" }, slog.New(slog.DiscardHandler)
		list, err := temporal.Check(t.Context(), o)
		if err != nil || len(list) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		for _, f := range list {
			if strings.Contains(f.Detail, "secret") {
				t.Errorf("%s: the finding has the key: %+v", name, f)
			}
		}
		keys := heard.take()
		if (len(keys) > 0) != c.hears || slices.ContainsFunc(keys, func(k string) bool { return k != "Bearer secret" }) {
			t.Errorf("%s: it heard %q", name, keys)
		}
	}
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }
