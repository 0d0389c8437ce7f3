// Package postgres runs a real PostgreSQL server for tests and benchmarks: from
// Debian's packages, in a temporary directory, as another user than root, on a
// Unix socket, with fsync on. What it starts it ends by process id; the server
// also ends when this process dies.
//
// GRAPHSUBD_TEST_POSTGRES_URL names a server to use in its place. Each test has
// a schema of its own there, which is dropped afterwards.
package postgres
