package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/graphsubd/graphsubd/internal/config"
)

// putPair writes a certificate for loopback with its key.
func putPair(t *testing.T, dir string, ends time.Time) (authority *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(ends.Unix()), Subject: pkix.Name{CommonName: "hooks"},
		NotBefore: ends.Add(-48 * time.Hour), NotAfter: ends, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	put(t, filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	authority = x509.NewCertPool()
	authority.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	return authority
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func pairIn(dir string) *config.ServerTLS {
	return &config.ServerTLS{
		Certificate: config.Secret{File: filepath.Join(dir, "tls.crt")}, Key: config.Secret{File: filepath.Join(dir, "tls.key")},
	}
}

// A replaced certificate is served and shown soon, and one that is not usable
// never.
func TestCertificateReplaced(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &App{log: slog.New(slog.NewTextHandler(&log, nil)), registry: prometheus.NewRegistry()}
		first, second := time.Now().Add(24*time.Hour), time.Now().Add(240*time.Hour)
		putPair(t, dir, first)
		settings, err := a.serverTLS("listen.public", pairIn(dir))
		if err != nil {
			t.Fatal(err)
		}
		shows := func(when string, ends time.Time) {
			t.Helper()
			pair, err := settings.GetCertificate(nil)
			if err != nil || !pair.Leaf.NotAfter.Equal(ends.Truncate(time.Second)) {
				t.Errorf("%s: a certificate that ends %v is served, want %v; %v", when, pair.Leaf.NotAfter, ends, err)
			}
			families, err := a.registry.Gather()
			if err != nil || len(families) != 1 || families[0].GetName() != "graphsubd_certificate_expiry_timestamp_seconds" {
				t.Fatal(families, err)
			}
			m := families[0].GetMetric()[0]
			if m.GetLabel()[0].GetValue() != "listen.public" || m.GetGauge().GetValue() != float64(ends.Unix()) {
				t.Errorf("%s: the metric is %v", when, m)
			}
		}
		shows("at the start", first)
		putPair(t, dir, second)
		time.Sleep(certificateAge - time.Second)
		shows("a moment after", first)
		time.Sleep(time.Second)
		shows("when it was read anew", second)
		put(t, filepath.Join(dir, "tls.crt"), []byte("half"))
		for range 3 {
			time.Sleep(certificateAge)
			shows("with half of a file", second)
		}
		if said := strings.Count(log.String(), "certificate is not usable"); said != 1 {
			t.Errorf("said %d times: %s", said, log.String())
		}
		putPair(t, dir, first)
		time.Sleep(certificateAge)
		shows("after that", first)
	})
}

func TestCertificateMissing(t *testing.T) {
	a := &App{registry: prometheus.NewRegistry()}
	if _, err := a.serverTLS("listen.public", pairIn(t.TempDir())); err == nil || !strings.Contains(err.Error(), "listen.public.tls: file ") {
		t.Errorf("without its files: %v", err)
	}
	if n, err := testutil.GatherAndCount(a.registry); n != 0 || err != nil {
		t.Error(n, err)
	}
}

func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	authority := putPair(t, dir, time.Now().Add(24*time.Hour))
	a := &App{log: slog.New(slog.DiscardHandler), registry: prometheus.NewRegistry()}
	settings, err := a.serverTLS("listen.public", pairIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Second, TLSConfig: settings,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }),
	}
	p := newParts()
	public := p.start(t.Context(), "public", func(ctx context.Context) error { return serve(ctx, server, listener) })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+listener.Addr().String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil || response.StatusCode != http.StatusAccepted {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	client.CloseIdleConnections()
	end(public)
	if errs := p.errs(); len(errs) != 0 {
		t.Error(errs)
	}
}
