package webhook

import "crypto/x509"

// Trust lets a sink take certificates of these authorities.
func Trust(s *Sink, roots *x509.CertPool) { s.transport.TLSClientConfig.RootCAs = roots }
