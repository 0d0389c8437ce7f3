// Package msgraph is the adapter to Microsoft Graph, and the only outbound
// client for it. The requests and models are those of msgraph-sdk-go, the
// tokens those of azidentity; this package owns what happens on the wire.
//
// One Client serves one app registration in one cloud, and one Tenant of it
// makes the calls in one Entra tenant. Tenants share the connections and
// nothing else: each has a credential and a token of its own, so that neither
// a token nor a hanging login of one tenant reaches another.
//
// What holds:
//
//   - Every failure is a *graph.Error, filled whole. Nothing is retried but a
//     call that Graph refused with 401, once, with a new token: one place
//     above decides on retries. Redirects are not followed, bodies are not
//     compressed.
//   - Every attempt has its own time-out below the caller's deadline and ends
//     at once with the caller's context. The cause of an ended context is in
//     the error, so errors.Is(err, graph.ErrLeaseLost) works.
//   - A listing is whole or an error, never short.
//   - No answer is read beyond a bound, and what is not JSON is not Graph's.
//   - Secrets (clientState, URLs of the receiver, tokens, credentials, query
//     strings) are taken out of every text that leaves the package.
//
// The SDK's root package and its request pipeline are not used: the root
// pulls in hundreds of packages, and the pipeline retries, compresses and
// hides the answers that have to be told apart here.
//
// The package starts no goroutine of its own; idle connections end with
// Client.Close. A Client and its Tenants are safe for concurrent use.
package msgraph
