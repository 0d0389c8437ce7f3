// Package file is the sink that appends one CloudEvent, as structured JSON, a
// line to a file, or to a writer such as standard output.
//
// A file is synced once for each batch, before any event of it counts as
// delivered. When a write or a sync fails, the whole batch fails, the file is
// cut back to where it was, and it is opened anew for the next try: after a
// failed sync nothing that the old handle says can be trusted. Where cutting
// back fails too, lines of the batch may stand twice later, with the same
// event id.
//
// A line that a crash left unfinished is mended at opening. It was never
// synced as part of a whole batch, so its event comes again; it is cut off
// rather than ended with a newline, since a torn line would stop a reader. Two
// things are never cut: a last line that is whole JSON and only lacks its
// newline gets one, and a file that ends in something that graphsubd does not
// write is refused.
//
// A file that was moved away or deleted is made anew. There may be one writer
// for a file; the package does not guard against a second. It starts no
// goroutine. A writer is not durable: an event counts as delivered once the
// writer took it.
package file
