package config

// Certificate is a key pair for notifications that carry resource data: either
// Certificate and Key, or PKCS12.
type Certificate struct {
	// A DNS-1123 label of at most 63 characters, unique among the certificates.
	Name string `yaml:"name" jsonschema:"required,maxLength=63"`
	// Certificate in PEM.
	Certificate *Secret `yaml:"certificate"`
	// Private key in PEM.
	Key *Secret `yaml:"key"`
	// PKCS#12 with certificate and private key.
	PKCS12 *Secret `yaml:"pkcs12"`
	// Password of the PKCS#12 file or the private key. Default none.
	Password *Secret `yaml:"password"`
}

func (c *Certificate) check(a place, n *names) {
	n.certificates.declare(a.key("name"), c.Name)
	pem := c.Certificate != nil || c.Key != nil
	checkOneKind(a, kind{"certificate", pem}, kind{"pkcs12", c.PKCS12 != nil})
	if pem && (c.Certificate == nil || c.Key == nil) {
		a.fault("has only one of certificate and key", "name both")
	}
}
