package msgraph

import (
	"fmt"
	"net/url"
	"strings"
)

// Cloud names one of Microsoft's clouds as the configuration does.
type Cloud string

// The clouds in which Graph has subscriptions.
const (
	CloudGlobal  Cloud = "global"
	CloudUSGovL4 Cloud = "usgov-l4"
	CloudUSGovL5 Cloud = "usgov-l5"
	CloudChina   Cloud = "china"
)

// Clouds lists every cloud.
func Clouds() []Cloud { return []Cloud{CloudGlobal, CloudUSGovL4, CloudUSGovL5, CloudChina} }

// Endpoints is what follows from the choice of a cloud. A token of one cloud
// is worth nothing in another, so these are never set one by one.
type Endpoints struct {
	Graph string // origin of Graph, "https://graph.microsoft.com"
	Login string // origin of the token authority
	Scope string // what a token is asked for
	// Database is what a token for Azure's PostgreSQL is asked for.
	Database string
}

// EndpointsOf gives the endpoints of a cloud, as Microsoft documents them.
func EndpointsOf(cloud Cloud) (Endpoints, error) {
	var e Endpoints
	databases := "usgovcloudapi.net"
	switch cloud {
	case CloudGlobal:
		e = Endpoints{Graph: "https://graph.microsoft.com", Login: "https://login.microsoftonline.com"}
		databases = "windows.net"
	case CloudUSGovL4:
		e = Endpoints{Graph: "https://graph.microsoft.us", Login: "https://login.microsoftonline.us"}
	case CloudUSGovL5:
		e = Endpoints{Graph: "https://dod-graph.microsoft.us", Login: "https://login.microsoftonline.us"}
	case CloudChina:
		e = Endpoints{Graph: "https://microsoftgraph.chinacloudapi.cn", Login: "https://login.chinacloudapi.cn"}
		databases = "chinacloudapi.cn"
	default:
		return e, fmt.Errorf("unknown cloud %q: it is one of %v", cloud, Clouds())
	}
	e.Scope, e.Database = e.Graph+"/.default", "https://ossrdbms-aad.database."+databases+"/.default"
	return e, nil
}

// override points the endpoints at a simulator or a proxy. The scope stays
// that of the cloud, because a proxy passes the token on. The host of another
// cloud is refused: its calls would end in "Invalid audience".
func (e Endpoints) override(graphURL, loginURL string) (Endpoints, error) {
	var err error
	if graphURL != "" {
		if e.Graph, err = e.replace("GraphURL", graphURL); err != nil {
			return e, err
		}
	}
	if loginURL != "" {
		if e.Login, err = e.replace("LoginURL", loginURL); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (e Endpoints) replace(field, with string) (string, error) {
	u, err := url.Parse(with)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s has to be https://host[:port] and nothing more", field)
	}
	origin := originOf(u)
	for _, cloud := range Clouds() {
		other, err := EndpointsOf(cloud)
		if err != nil {
			return "", err
		}
		known := origin == other.Graph || origin == other.Login
		if known && origin != e.Graph && origin != e.Login {
			return "", fmt.Errorf("%s %s belongs to another cloud than the one configured: set the cloud instead", field, origin)
		}
	}
	return origin, nil
}

// originOf gives scheme, host and port in one spelling, for comparisons.
func originOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if u.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	}
	return strings.ToLower(u.Scheme) + "://" + host
}
