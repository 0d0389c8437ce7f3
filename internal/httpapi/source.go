package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// sources says who may send.
type sources struct{ proxies, allowed []netip.Prefix }

// allow says whether a request comes from an allowed range; without any range
// all do.
func (s *sources) allow(req *http.Request) bool {
	if len(s.allowed) == 0 {
		return true
	}
	client, ok := s.client(req)
	return ok && within(s.allowed, client)
}

// client is who sent a request: the peer, or what the right-most hop that is no
// trusted proxy says it is. Each proxy appends whom it got the request from, so
// what stands further to the left is the client's own invention. ok is false
// where a trusted proxy says something that is no address.
func (s *sources) client(req *http.Request) (client netip.Addr, ok bool) {
	peer, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		peer = req.RemoteAddr
	}
	hops := append(strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ","), peer)
	for _, hop := range slices.Backward(hops) {
		address, err := hopAddress(hop)
		switch {
		case err != nil && strings.TrimSpace(hop) == "" && client.IsValid():
			return client, true // a proxy that adds no header, or the first one
		case err != nil:
			return netip.Addr{}, false
		case !within(s.proxies, address):
			return address, true
		}
		client = address
	}
	return client, client.IsValid()
}

// hopAddress reads an address with or without a port.
func hopAddress(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap().WithZone(""), nil
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return address.Unmap().WithZone(""), err
}

func within(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(address) })
}
