package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// kind is one of several keys of which exactly one is to be written.
type kind struct {
	name string
	set  bool
}

func checkOneKind(a place, kinds ...kind) {
	var all, set []string
	for _, k := range kinds {
		all = append(all, k.name)
		if k.set || a.doc.spoiled[a.key(k.name).path] {
			set = append(set, k.name)
		}
	}
	switch len(set) {
	case 0:
		a.fault("has no kind", "name exactly one of "+strings.Join(all, ", "))
	case 1:
	default:
		a.key(set[1]).fault("is one kind too many beside "+set[0], "keep exactly one of "+strings.Join(set, ", "))
	}
}

func checkText(a place, text string) {
	if text == "" {
		a.fault("is missing", "give it a value")
	}
}

// checkLabel holds text to a DNS-1123 label.
func checkLabel(a place, text string) {
	const remedy = "use 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends"
	switch {
	case text == "":
		a.fault("is missing", remedy)
	case len(text) > 63:
		a.fault("has "+strconv.Itoa(len(text))+" characters", remedy)
	case strings.HasPrefix(text, "-"), strings.HasSuffix(text, "-"), strings.ContainsFunc(text, notLabelRune):
		a.fault(quote(text)+" is not a name", remedy)
	}
}

func notLabelRune(r rune) bool {
	return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
}

func checkOneOf(a place, text string, allowed ...string) {
	if slices.Contains(allowed, text) {
		return
	}
	remedy := "write one of " + strings.Join(allowed, ", ")
	if text == "" {
		a.fault("is missing", remedy)
		return
	}
	a.fault(quote(text)+" is not known", remedy)
}

// checkSet holds a list to some of allowed, each at most once.
func checkSet(a place, list []string, allowed ...string) {
	if len(list) == 0 {
		a.fault("is empty", "write one or more of "+strings.Join(allowed, ", "))
	}
	for i, text := range list {
		checkOneOf(a.index(i), text, allowed...)
		if slices.Index(list, text) < i {
			a.index(i).fault(quote(text)+" stands twice", "write each once")
		}
	}
}

func checkPositive[T ~int64](a place, value T) {
	if value <= 0 {
		a.fault("is not above zero", "write a value above zero")
	}
}

func checkShare(a place, value float64) {
	if !(value > 0 && value <= 1) { // NaN is refused too.
		a.fault("is not above 0 and at most 1", "write a share such as 0.9")
	}
}

// checkGUID returns the id in lower case, as Graph writes it.
func checkGUID(a place, text string) string {
	groups := strings.Split(text, "-")
	lengths := []int{8, 4, 4, 4, 12}
	ok := len(groups) == len(lengths)
	for i := 0; ok && i < len(groups); i++ {
		ok = len(groups[i]) == lengths[i] && !strings.ContainsFunc(groups[i], notHexRune)
	}
	const remedy = "write a GUID such as 84bd8158-6d4d-4958-8b9f-9d6445542f95"
	switch {
	case text == "":
		a.fault("is missing", remedy)
	case !ok:
		a.fault(quote(text)+" is not a GUID", remedy)
	}
	return strings.ToLower(text)
}

func notHexRune(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'f') && (r < 'A' || r > 'F')
}

// checkAddress returns the port, or -1 after a fault.
func checkAddress(a place, text string) int {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			return int(n)
		}
	}
	a.fault(quote(text)+" is not an address with a port", "write host:port or :port, such as :8080")
	return -1
}

func checkPrefixes(a place, list []string) {
	for i, text := range list {
		if _, err := netip.ParsePrefix(text); err != nil {
			a.index(i).fault(quote(text)+" is not an address range", "write one such as 10.0.0.0/8 or 192.0.2.7/32")
		}
	}
}

// checkBaseURL holds text to an address that paths are put after, and returns
// it without a slash at its end. Loopback may do without TLS.
func checkBaseURL(a place, text string) string {
	u := checkURL(a, text, "https", "http")
	switch {
	case u == nil:
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		a.fault("has a query or a fragment", "write the address without ? and #")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		a.fault("is not https", "use https; http is for loopback only")
	}
	return strings.TrimRight(text, "/")
}

// checkURL returns nil after a fault. It never repeats the text, which may
// hold a password.
func checkURL(a place, text string, schemes ...string) *url.URL {
	remedy := "write an address such as " + schemes[0] + "://host/path"
	if text == "" {
		a.fault("is missing", remedy)
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || strings.TrimSpace(text) != text:
		a.fault("is not an address", remedy)
	case !slices.Contains(schemes, u.Scheme):
		a.fault("does not begin with "+strings.Join(schemes, ":// or ")+"://", remedy)
	case u.User != nil:
		a.fault("has a user or a password in it", "remove it; a secret stands in a file or an environment variable")
	default:
		return u
	}
	return nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
