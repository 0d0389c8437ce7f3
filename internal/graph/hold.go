package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// HoldID names a set of records that are held for a person: it changes when one
// joins or leaves. It is empty for an empty set.
func HoldID(keys []Key) string {
	if len(keys) == 0 {
		return ""
	}
	lines := make([]string, len(keys))
	for i, key := range keys {
		lines[i] = key.Name + "\x00" + key.Gen
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// CommandApprove is the action of a command that releases what is held; its
// argument is the HoldID of what the person has seen.
const CommandApprove = "approve"

// Command is what a person asks of the leader. Any process takes it; the leader
// finds it in the store.
type Command struct {
	ID       string
	Action   string
	Argument string
	By       string // who asked, by the name of the token
}

// CommandState is how far a command is.
type CommandState string

// The states of a command.
const (
	CommandPending  CommandState = "pending"
	CommandDone     CommandState = "done"
	CommandConflict CommandState = "conflict" // the state of things is not the one that was seen
)
