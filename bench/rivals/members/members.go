// Package members is what the nodes of the other systems share.
package members

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
)

// Members has the addresses of a quorum's nodes by their ids, which count from 1.
type Members []string

// Main is the main function of a node: it parses the options, and ends the program with what run returns.
func Main(run func(id uint64, dir string, all Members) error) {
	id := flag.Uint64("id", 0, "the `ID` of this node, from 1 on")
	dir := flag.String("dir", "", "the `folder` of its log")
	list := flag.String("members", "", "the `addresses` of all nodes by their ids, with commas between")
	flag.Parse()
	if err := run(*id, *dir, strings.Split(*list, ",")); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// Of returns the address of a node.
func (m Members) Of(id uint64) string { return m[id-1] }

// NoLog returns a logger that drops all.
func NoLog() *log.Logger { return log.New(io.Discard, "", 0) }
