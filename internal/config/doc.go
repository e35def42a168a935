// Package config reads server.properties as Apache Kafka 4.4.0 reads it when kafka-storage and the server
// start: what Kafka takes is taken with the same values, what it refuses is refused.
//
//	server.properties --javaprops--> properties --config providers--> texts --settings--> values --checks--> Config
//
// Properties are those of java.util.Properties (package javaprops). Of a key that stands there twice the last
// line counts. Config providers (KIP-297, KIP-421) put environment variables, properties of other files
// and contents of files in place of ${NAME:KEY} and ${NAME:PATH:KEY}. Each setting that Kafka defines is parsed by its type and checked
// against what is allowed, from the one table in settings.go; keys that it does not define pass. At last the settings are checked
// together: ids, roles, listeners, quorum, directories, and pairs of limits. All of this
// is for the whole file, whatever a command is about to use, so that a node that was formatted starts.
//
// What differs from Kafka, each marked by "Unlike Kafka" where it is done:
//   - an empty metadata.log.dir, and one directory under two spellings, are refused;
//   - a class can't be looked for without a JVM: any well-formed name of one is taken;
//   - of config providers there are Kafka's own three, and the allow list of the environment is a regular
//     expression of RE2: what only Java's can do is refused.
//
// Kafka stops at the first problem; here all of them come together, each with its line, the value and a way out. The
// values of passwords, and of keys that are unknown, are neither kept nor shown.
package config
