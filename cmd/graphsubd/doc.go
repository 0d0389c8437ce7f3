// Command graphsubd keeps Microsoft Graph change-notification subscriptions
// alive, receives what they send and hands it on.
//
// The command owns flags, output and exit codes: one file per subcommand, and
// no rule of the domain. It refuses to read the environment or to exit
// anywhere but in main, so that run is the same in a test and in the pod. It
// starts no goroutine of its own; main turns SIGINT and SIGTERM into the end
// of the context, and a second signal kills the process.
package main
