// Package interop tests kstorage and kfeatures against real Apache Kafka: Kafka's tools and servers read what kstorage
// wrote, and kstorage reads what they wrote; kfeatures and kafka-features ask clusters of both for the same.
//
//	make interop        go test -tags interop -count=1 -timeout 30m ./interop/...
//
// The build tag keeps these tests out of `go test ./...`, which needs Go alone. They need a JDK of version 17 or newer
// and, until the jars are fetched, Maven, and fail with a word that says so when one is missing: a skipped interop test
// proves nothing. All takes five to six minutes on two cores.
//
// Kafka's jars are fetched with pom.xml once for each version and kept in the user's cache folder. The environment
// chooses something else (the test of older clients takes 4.0.0 all the same):
//
//	INTEROP_KAFKA     the version of Kafka; without it that of pom.xml. The expectations are those of 4.4.0.
//	INTEROP_CACHE     the folder for the jars; without it kstorage in the user's cache folder
//	INTEROP_KSTORAGE  a kstorage to test; without it the tests build cmd/kstorage
//	INTEROP_KFEATURES the same for kfeatures
//
// One JVM (java/InteropHost.java) runs all of Kafka's tools; each server, Kafka's or `kstorage start`, is a process group
// of its own that ends with its test, and ends too when the test process disappears (which needs Linux, as does the
// address that each test process has for itself). Nothing sleeps: a test waits for a line in a server's log or asks
// until the answer is right, each with a limit. When a test fails, it prints the end of its servers' logs.
package interop
