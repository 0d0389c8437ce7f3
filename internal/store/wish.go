package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/graphsubd/graphsubd/internal/graph"
)

// Wishes gives all wishes that are not deleted, by name.
func (s *Store) Wishes(ctx context.Context) ([]graph.Wish, error) {
	return s.wishes(ctx, `SELECT spec FROM wish WHERE deleted_at = 0 ORDER BY name`)
}

// Wish gives the wish of a name; found is false when nobody wishes for it.
func (s *Store) Wish(ctx context.Context, name string) (wish graph.Wish, found bool, err error) {
	wishes, err := s.wishes(ctx, `SELECT spec FROM wish WHERE deleted_at = 0 AND name = ?`, name)
	if err != nil || len(wishes) == 0 {
		return graph.Wish{}, false, err
	}
	return wishes[0], true, nil
}

func (s *Store) wishes(ctx context.Context, query string, args ...any) ([]graph.Wish, error) {
	var wishes []graph.Wish
	err := s.reader.query(ctx, query, func(rows cursor) error {
		var spec []byte
		if err := rows.Scan(&spec); err != nil {
			return err
		}
		var wish graph.Wish
		err := json.Unmarshal(spec, &wish)
		wishes = append(wishes, wish)
		return err
	}, args...)
	return wishes, err
}

// PutWishes makes wishes the complete set of a source: it inserts, updates
// what differs, and marks as deleted what is missing. Names of other sources
// stay; to use one of them is ErrNameTaken, and nothing changes then.
func (s *Store) PutWishes(ctx context.Context, term int64, source graph.Source, wishes []graph.Wish) error {
	return s.lead(ctx, term, "store wishes", func(ctx context.Context, t *transaction) error {
		t.afterCommit(s.router.forget)
		former, err := storedWishes(ctx, t)
		if err != nil {
			return err
		}
		for _, wish := range wishes {
			wish.Source = source
			if err := putWish(ctx, t, wish, former[wish.Name]); err != nil {
				return err
			}
			delete(former, wish.Name)
		}
		return deleteWishes(ctx, t, source, former)
	})
}

// storedWish is a wish as it is in the database.
type storedWish struct {
	source  graph.Source
	spec    string
	deleted bool
}

func storedWishes(ctx context.Context, t *transaction) (map[string]*storedWish, error) {
	wishes := map[string]*storedWish{}
	err := t.query(ctx, `SELECT name, source, spec, deleted_at <> 0 FROM wish`, func(rows cursor) error {
		var name string
		var wish storedWish
		err := rows.Scan(&name, &wish.source, &wish.spec, &wish.deleted)
		wishes[name] = &wish
		return err
	})
	return wishes, err
}

// putWish writes only what changed, so that the version says so.
func putWish(ctx context.Context, t *transaction, wish graph.Wish, former *storedWish) error {
	spec, err := json.Marshal(wish)
	if err != nil {
		return fmt.Errorf("wish %s: %w", wish.Name, err)
	}
	if former != nil && !former.deleted {
		if former.source != wish.Source {
			return fmt.Errorf("wish %s: %w %s: rename one of them", wish.Name, ErrNameTaken, former.source)
		}
		if former.spec == string(spec) {
			return nil
		}
	}
	_, err = t.exec(ctx, `INSERT INTO wish (name, source, gen, spec, version, deleted_at) VALUES (?, ?, ?, ?, 1, 0)
		ON CONFLICT (name) DO UPDATE SET source = excluded.source, gen = excluded.gen, spec = excluded.spec,
		version = wish.version + 1, deleted_at = 0`, wish.Name, string(wish.Source), wish.Gen, string(spec))
	return err
}

func deleteWishes(ctx context.Context, t *transaction, source graph.Source, missing map[string]*storedWish) error {
	var names []any
	for name, wish := range missing {
		if wish.source == source && !wish.deleted {
			names = append(names, name)
		}
	}
	return t.execIn(ctx, `UPDATE wish SET version = version + 1, deleted_at = ? WHERE name IN (?)`,
		names, micros(t.now()))
}
