package app

import (
	"context"
	"time"
)

// noteEvery is how often it is noted that notifications can be accepted:
// several times within graph.ReceivingBreak.
const noteEvery = time.Minute

// noteReceiving notes in the store, for as long as the public listener serves,
// that notifications can be accepted. From a note that is missing for long any
// replica finds later that changes were lost. With the keys lost every one is
// refused, and nothing is noted.
func (a *App) noteReceiving(ctx context.Context) error {
	if a.keysLost {
		<-ctx.Done()
		return nil
	}
	again := time.NewTicker(noteEvery)
	defer again.Stop()
	failing := false
	for {
		err := a.store.NoteReceiving(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			a.component("receiver").WarnContext(ctx, "notifications cannot be accepted, trying again", "error", err.Error())
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}
