// Command kstorage takes the place of Apache Kafka's kafka-storage: it formats the log
// directories of a node, shows what is in them, and runs a node, without a JVM.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"kstorage/internal/cli"
)

func main() {
	// A reader that goes away must not stop a format midway: a write to it fails instead.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], cli.Machine()))
}
