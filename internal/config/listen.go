package config

// Listen holds the addresses of the three listeners.
type Listen struct {
	// Handshakes and notifications, nothing else. Default address :8080.
	Public Listener `yaml:"public"`
	// REST and the status page. Default address :8081.
	Admin Listener `yaml:"admin"`
	// Metrics, liveness and readiness. Default address :9090.
	Telemetry PlainListener `yaml:"telemetry"`
}

// Listener is an address that may have TLS of its own.
type Listener struct {
	// Host and port to bind; without a host, all of them; port 0 takes a free one.
	Address string `yaml:"address"`
	// Key pair of the server. Without it the listener speaks plain HTTP.
	TLS *ServerTLS `yaml:"tls"`
}

// PlainListener is an address that speaks plain HTTP.
type PlainListener struct {
	// Host and port to bind; without a host, all of them; port 0 takes a free one.
	Address string `yaml:"address"`
}

// ServerTLS is the key pair of a listener.
type ServerTLS struct {
	// Certificate chain in PEM, the server's own first.
	Certificate Secret `yaml:"certificate" jsonschema:"required"`
	// Private key in PEM.
	Key Secret `yaml:"key" jsonschema:"required"`
}

// places is l without the values of its secrets.
func (l *Listen) places() Listen {
	without := *l
	without.Public.TLS, without.Admin.TLS = l.Public.TLS.places(), l.Admin.TLS.places()
	return without
}

func (t *ServerTLS) places() *ServerTLS {
	if t == nil {
		return nil
	}
	place := func(s Secret) Secret { return Secret{File: s.File, Env: s.Env} }
	return &ServerTLS{Certificate: place(t.Certificate), Key: place(t.Key)}
}

func (l *Listen) setDefaults() {
	l.Public.Address, l.Admin.Address, l.Telemetry.Address = ":8080", ":8081", ":9090"
}

func (l *Listen) check(a place) {
	taken := map[string]string{}
	for _, one := range []struct {
		name, address string
		tls           *ServerTLS
	}{
		{"public", l.Public.Address, l.Public.TLS},
		{"admin", l.Admin.Address, l.Admin.TLS},
		{"telemetry", l.Telemetry.Address, nil},
	} {
		at := a.key(one.name)
		port := checkAddress(at.key("address"), one.address)
		if other, ok := taken[one.address]; ok && port != 0 {
			at.key("address").fault("is the address of "+other+" too", "give each listener a port of its own")
		}
		taken[one.address] = "listen." + one.name
		if one.tls != nil {
			one.tls.Certificate.checkSet(at.key("tls").key("certificate"))
			one.tls.Key.checkSet(at.key("tls").key("key"))
		}
	}
}
