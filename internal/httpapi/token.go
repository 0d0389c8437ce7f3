package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// tokenAge is how long a token that was replaced or removed still works.
	tokenAge = time.Second
	// minToken keeps a file that was emptied or cut off from opening the door.
	minToken = 16
	// bearer names the scheme, in the header and in the schema.
	bearer = "bearer"
)

// The roles. Each may what those before it may.
const (
	roleViewer   = "viewer"
	roleOperator = "operator"
	roleAdmin    = "admin"
)

// AdminToken is one token that opens the admin interface.
type AdminToken struct {
	Name string // of the caller, for the log
	Role string // viewer, operator or admin; any other may nothing
	// Current reads the token. It is called again and again, so that a
	// token which is replaced where it stands is picked up; its error must
	// not hold the token.
	Current func() (string, error)
}

// caller is who sent a request.
type caller struct{ name, role string }

// may says whether the caller's role is at least the needed one.
func (c caller) may(needed string) bool {
	order := []string{roleViewer, roleOperator, roleAdmin}
	has, needs := slices.Index(order, c.role), slices.Index(order, needed)
	return has >= 0 && needs >= 0 && has >= needs
}

// tokens knows the hashes of all tokens. It is safe for concurrent use.
type tokens struct {
	log *slog.Logger

	mu     sync.Mutex
	list   []AdminToken    // guarded by mu, as the rest
	known  []hashed        // what could be read
	read   time.Time       // when known was made, zero for never
	broken map[string]bool // names whose fault was logged
}

type hashed struct {
	caller caller
	hash   [sha256.Size]byte
}

func (t *tokens) set(list []AdminToken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list, t.read, t.broken = slices.Clone(list), time.Time{}, map[string]bool{}
}

// find says whose token was presented. How long it takes does not depend on
// how much of it is right.
func (t *tokens) find(presented string, now time.Time) (who caller, found bool) {
	hash := sha256.Sum256([]byte(presented))
	for _, known := range t.current(now) {
		if subtle.ConstantTimeCompare(hash[:], known.hash[:]) == 1 {
			who, found = known.caller, true
		}
	}
	return who, found
}

// current reads the tokens anew unless that was just done. One that cannot be
// read opens nothing: its removal may be meant.
func (t *tokens) current(now time.Time) []hashed {
	t.mu.Lock()
	defer t.mu.Unlock()
	if age := now.Sub(t.read); age >= 0 && age < tokenAge {
		return t.known
	}
	known := make([]hashed, 0, len(t.list))
	for _, token := range t.list {
		text, err := token.Current()
		if err == nil && len(text) >= minToken {
			known = append(known, hashed{caller{token.Name, token.Role}, sha256.Sum256([]byte(text))})
			delete(t.broken, token.Name)
			continue
		}
		if !t.broken[token.Name] {
			t.broken[token.Name] = true
			t.log.Warn("admin token cannot be used", "caller", token.Name, "too_short", err == nil, "error", err)
		}
	}
	t.known, t.read = known, now
	return known
}

// bearerToken takes the token out of an Authorization header.
func bearerToken(header string) (token string, present bool) {
	scheme, token, found := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, found && strings.EqualFold(scheme, bearer) && token != ""
}
