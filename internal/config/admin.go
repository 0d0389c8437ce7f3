package config

import "strings"

// minTokenBytes keeps an admin token out of reach of guessing.
const minTokenBytes = 16

// Admin says who may use the admin listener. Without tokens and oidc nobody may.
type Admin struct {
	// Tokens that are sent as "Authorization: Bearer …".
	Tokens []AdminToken `yaml:"tokens"`
	// Sign-in by an OpenID Connect issuer such as Entra ID.
	OIDC *OIDC `yaml:"oidc"`
}

// AdminToken is one static token and what it allows.
type AdminToken struct {
	// Name of the caller in the audit. A DNS-1123 label of at most 63 characters, unique among the tokens.
	Name string `yaml:"name" jsonschema:"required,maxLength=63"`
	// What it allows: viewer reads, operator also acts, admin also changes what is desired.
	Role string `yaml:"role" jsonschema:"required,enum=viewer,enum=operator,enum=admin"`
	// The token, 16 or more printable characters without spaces.
	Token Secret `yaml:"token" jsonschema:"required"`
}

// OIDC names who signs the admin's tokens.
type OIDC struct {
	// Issuer URL, exactly as in the tokens: https, except on loopback.
	Issuer string `yaml:"issuer" jsonschema:"required,format=uri"`
	// Audience a token must have.
	Audience string `yaml:"audience" jsonschema:"required"`
}

func (ad *Admin) check(a place) {
	tokens := newRegistry("admin token")
	for i := range ad.Tokens {
		t, at := &ad.Tokens[i], a.key("tokens").index(i)
		tokens.declare(at.key("name"), t.Name)
		checkOneOf(at.key("role"), t.Role, "viewer", "operator", "admin")
		t.Token.checkSet(at.key("token"))
	}
	if ad.OIDC != nil {
		checkBaseURL(a.key("oidc").key("issuer"), ad.OIDC.Issuer)
		checkText(a.key("oidc").key("audience"), ad.OIDC.Audience)
	}
}

// checkSecrets applies the rules that need the values of the tokens.
func (ad *Admin) checkSecrets(a place) {
	seen := map[string]string{}
	for i := range ad.Tokens {
		t, at := &ad.Tokens[i], a.key("tokens").index(i).key("token")
		text := t.Token.Text()
		switch other, twice := seen[text]; {
		case text == "":
		case len(text) < minTokenBytes || strings.ContainsFunc(text, notTokenRune):
			at.fault("the token in "+t.Token.Source()+" is too short or has spaces in it",
				"use 16 or more printable ASCII characters without spaces")
		case twice:
			at.fault("the token in "+t.Token.Source()+" is that of "+other+" too", "give each name a token of its own")
		}
		seen[text] = t.Name
	}
}

func notTokenRune(r rune) bool {
	return r <= ' ' || r > '~'
}
