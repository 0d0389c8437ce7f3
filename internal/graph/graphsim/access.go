package graphsim

import (
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// minTokenLife keeps compressed time from making tokens that die on the way:
// their instants are whole seconds. A configured life may be shorter.
const minTokenLife = time.Minute

func (s *Sim) tokenLife(configured time.Duration) time.Duration {
	return max(s.scaled(configured), min(configured, minTokenLife))
}

// accessToken signs a version 1.0 token, as Graph's are.
func (s *Sim) accessToken(x *exchange, app, tenant, audience string) (string, time.Duration, error) {
	life := s.tokenLife(s.cfg.TokenLifetime)
	roles := s.cfg.Clients[app].Roles
	if roles == nil {
		roles = []string{
			"Calendars.Read", "CallRecords.Read.All", "ChannelMessage.Read.All", "Chat.Read.All",
			"Contacts.Read", "Files.ReadWrite.All", "Group.Read.All", "Mail.Read", "Sites.ReadWrite.All", "User.Read.All",
		}
	}
	principal := guid(stream(s.seed, "principal", app, tenant))
	token, err := s.keys.sign(jwt.MapClaims{
		"aud": audience, "iss": "https://sts.windows.net/" + tenant + "/", "ver": "1.0",
		"iat": x.now.Unix(), "nbf": x.now.Unix(), "exp": x.now.Add(life).Unix(),
		"appid": app, "azp": app, "appidacr": "1", "idtyp": "app",
		"oid": principal, "sub": principal, "tid": tenant, "roles": roles,
		"uti": token(x.random, 22),
	})
	return token, life, err
}

// authenticate reads the bearer token of a Graph call.
func (s *Sim) authenticate(x *exchange) (caller, error) {
	scheme, raw, _ := strings.Cut(x.request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || raw == "" {
		return caller{}, badToken("Access token is empty.")
	}
	var claims jwt.MapClaims
	_, err := jwt.ParseWithClaims(raw, &claims, func(*jwt.Token) (any, error) { return &s.keys.private.PublicKey, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return x.now }))
	if err != nil {
		return caller{}, badToken("Lifetime validation failed, the token is expired, or its signature is invalid.")
	}
	if audience, ok := claims["aud"].(string); !ok || !isGraph(audience, origin(x.request)) {
		return caller{}, badToken("Access token validation failure. Invalid audience.")
	}
	app, appOK := claims["appid"].(string)
	tenant, tenantOK := claims["tid"].(string)
	if !appOK || !tenantOK {
		return caller{}, badToken("Access token validation failure.")
	}
	return caller{app, tenant}, nil
}

// isGraph says whether an audience is Graph's: one of its clouds, its own
// application id, or the root that was called.
func isGraph(audience, called string) bool {
	return slices.Contains([]string{
		"https://graph.microsoft.com", "https://graph.microsoft.us", "https://dod-graph.microsoft.us",
		"https://microsoftgraph.chinacloudapi.cn", "00000003-0000-0000-c000-000000000000", called,
	}, strings.TrimSuffix(audience, "/"))
}
