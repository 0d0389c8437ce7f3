package store_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/graphsubd/graphsubd/internal/graph"
	"github.com/graphsubd/graphsubd/internal/notification"
	"github.com/graphsubd/graphsubd/internal/store"
)

// query opens the closed database beside the store.
func query(t *testing.T, path, text string, args ...any) []string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var found []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		found = append(found, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSchemaHasTheLogicalModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := open(t, store.Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("sqlite", func(t *testing.T) {
		hasModel(t, func(t *testing.T, table string) []string {
			t.Helper()
			return query(t, path, `SELECT name FROM pragma_table_info(?)`, table)
		})
	})
	t.Run("postgres", func(t *testing.T) {
		where := database(t)
		replica(t, where, store.Config{})
		conn := connection(t, where)
		hasModel(t, func(t *testing.T, table string) []string {
			t.Helper()
			rows, err := conn.Query(t.Context(), `SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0`, table)
			if err != nil {
				t.Fatal(err)
			}
			columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			return columns
		})
	})
	for pragma, want := range map[string]string{"journal_mode": "wal", "auto_vacuum": "2", "integrity_check": "ok"} {
		if got := query(t, path, "PRAGMA "+pragma); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %v, want %s", pragma, got, want)
		}
	}
}

func hasModel(t *testing.T, columnsOf func(t *testing.T, table string) []string) {
	t.Helper()
	model, err := os.ReadFile("testdata/model.txt")
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for line := range strings.Lines(string(model)) {
		table, columns, _ := strings.Cut(strings.TrimSpace(line), ":")
		got := columnsOf(t, table)
		if len(got) == 0 {
			t.Errorf("no table %s", table)
		}
		for column := range strings.FieldsSeq(columns) {
			if !slices.Contains(got, column) {
				t.Errorf("table %s has no column %s", table, column)
			}
		}
		tables++
	}
	if tables != 18 {
		t.Errorf("the model has %d tables, want 18", tables)
	}
}

func TestWishVersionsAndIDHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, store.Config{Path: path})
	term := seed(t, s)
	wishes, err := s.Wishes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The same once more, changed, missing, back: three changes.
	changed := slices.Clone(wishes)
	changed[0].Paused = true
	for _, set := range [][]graph.Wish{wishes, changed, nil, wishes} {
		if err := s.PutWishes(t.Context(), term, graph.SourceFile, set); err != nil {
			t.Fatal(err)
		}
	}
	record := graph.Record{Name: wishes[0].Name, Gen: wishes[0].Gen, ID: "22222222-2222-4222-8222-22222222222A"}
	for _, change := range []graph.Change{{Record: record}, {Record: record, Forget: true}} {
		if err := s.Save(t.Context(), term, change); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := query(t, path, `SELECT version FROM wish WHERE deleted_at = 0`); !slices.Equal(got, []string{"4"}) {
		t.Errorf("version %v, want 4", got)
	}
	closed := query(t, path, `SELECT id FROM subscription_id WHERE "to" >= "from" AND "to" > 0 ORDER BY id`)
	want := []string{"11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-22222222222a"}
	if !slices.Equal(closed, want) {
		t.Errorf("closed ids %v, want %v", closed, want)
	}
}

func TestSecretsAreNotStored(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	s := open(t, store.Config{Path: path})
	term := seed(t, s)
	row := benchRow(1)
	const secret = "c1ient-state-0f-this-te5t"
	body := slices.Concat([]byte(`{"value":[{"clientState":"`+secret+`",`), row.Item[1:], []byte(`,{"ClientState":"`+secret+`"}]}`))
	envelope, err := notification.Decode(body)
	if err != nil || len(envelope.Items) != 1 || len(envelope.Malformed) != 1 {
		t.Fatalf("%+v, %v", envelope, err)
	}
	bad := row
	row.Item, bad.Item, bad.Reason = envelope.Items[0].JSON, envelope.Malformed[0], notification.ReasonMalformed
	if err := s.Append(t.Context(), []notification.Row{row, bad}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSigningKeys(t.Context(), term, []string{"a-fingerprint"}); err != nil {
		t.Fatal(err)
	}
	routeAll(t, s)
	var all []byte
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, content...)
	}
	if !bytes.Contains(all, []byte("a-fingerprint")) || !bytes.Contains(all, []byte("AAMkAD1")) {
		t.Error("what was stored is not in the files that were read")
	}
	if bytes.Contains(all, []byte(secret)) {
		t.Error("the clientState is in a file")
	}
}
