// Command kstorage takes the place of Apache Kafka's kafka-storage: it formats the log
// directories of a node and shows what is in them, without a JVM.
package main

import (
	"os"

	"kstorage/internal/cli"
)

func main() {
	os.Exit(run(os.Args[1:], cli.Machine()))
}
