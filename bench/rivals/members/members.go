// Package members is what the nodes of the other systems share.
package members

import (
	"flag"
	"io"
	"log"
	"strings"
)

// Members has the addresses of a quorum's nodes, whose ids count from 1.
type Members struct{ list *string }

// Flag defines the option --members of a node.
func Flag() Members {
	return Members{flag.String("members", "", "the `addresses` of all nodes by their ids, with commas between")}
}

// All returns the addresses in the order of the ids.
func (m Members) All() []string { return strings.Split(*m.list, ",") }

// Of returns the address of a node.
func (m Members) Of(id uint64) string { return m.All()[id-1] }

// NoLog returns a logger that drops all.
func NoLog() *log.Logger { return log.New(io.Discard, "", 0) }
