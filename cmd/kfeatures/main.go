// Command kfeatures takes the place of Apache Kafka's kafka-features: it shows which feature levels a cluster has and
// changes them, without a JVM.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"kstorage/internal/cli"
)

func main() {
	// A reader that goes away must not stop an upgrade that waits: a write to it fails instead.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], cli.Machine()))
}
