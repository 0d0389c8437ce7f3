// Package test checks the repository as a whole: the arrows between its packages, its documents, and the built program
// as a process. It owns no code that ships. A process test takes the program from GRAPHSUBD_BIN, which make sets.
package test
