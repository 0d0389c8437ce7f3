package store

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
)

// lookupAge bounds how long the router goes by what it has read. Writes of this
// process, the only one then, are seen at once.
const lookupAge = time.Second

// wishEntry is what the router needs of a wish.
type wishEntry struct {
	tenantID string
	sinks    []string
	deleted  bool
}

// lookup remembers what the router read: wishes by name and owners by
// subscription id, nil for what is not there.
type lookup struct {
	read   time.Time
	wishes map[string]*wishEntry
	owners map[string]*notification.Address
}

func (l *lookup) forget() { l.wishes, l.owners = nil, nil }

// fill reads what is not known of the rows yet.
func (l *lookup) fill(ctx context.Context, t *transaction, rows []stored, now time.Time) error {
	if l.wishes == nil || now.Sub(l.read) > lookupAge || now.Before(l.read) {
		l.read, l.wishes, l.owners = now, map[string]*wishEntry{}, map[string]*notification.Address{}
	}
	var names, ids []any
	for i := range rows {
		name, id := rows[i].Address.Name, rows[i].subscription()
		if _, known := l.wishes[name]; !known {
			l.wishes[name] = nil
			names = append(names, name)
		}
		if _, known := l.owners[id]; !known {
			l.owners[id] = nil
			ids = append(ids, id)
		}
	}
	if err := t.queryIn(ctx, `SELECT name, spec, deleted_at FROM wish WHERE name IN (?)`, names, l.scanWish); err != nil {
		return err
	}
	return t.queryIn(ctx, `SELECT id, name, gen FROM subscription_id WHERE id IN (?)`, ids, l.scanOwner)
}

func (l *lookup) scanWish(rows cursor) error {
	var name string
	var spec []byte
	var deletedAt int64
	if err := rows.Scan(&name, &spec, &deletedAt); err != nil {
		return err
	}
	var wish graph.Wish
	if err := json.Unmarshal(spec, &wish); err != nil {
		return err
	}
	entry := &wishEntry{tenantID: wish.TenantID, deleted: deletedAt != 0}
	for _, sink := range wish.Sinks {
		if !slices.Contains(entry.sinks, sink) {
			entry.sinks = append(entry.sinks, sink)
		}
	}
	l.wishes[name] = entry
	return nil
}

func (l *lookup) scanOwner(rows cursor) error {
	var id string
	var owner notification.Address
	if err := rows.Scan(&id, &owner.Name, &owner.Gen); err != nil {
		return err
	}
	l.owners[id] = &owner
	return nil
}

// stored is a row that the router looks at.
type stored struct {
	notification.Notification
	state string
}

func (r *stored) subscription() string { return strings.ToLower(r.SubscriptionID) }

// key is what order is kept within at a sink: the resource that changed, or
// the name for what is about the whole subscription.
func (r *stored) key() string {
	if r.Kind != notification.KindOperation {
		// The name matches in any case, as in the decoding of what arrives.
		var item struct {
			Resource string `json:"resource"`
		}
		if json.Unmarshal(r.Item, &item) == nil && item.Resource != "" {
			return strings.ToLower(item.Resource)
		}
	}
	return r.Address.Name
}
