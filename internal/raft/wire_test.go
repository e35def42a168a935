package raft_test

// The replays: each life of each recorded process, told from its side. wire_replay_test.go says what the lines are.
//
// Where ours does something else than Kafka 4.4.0 on purpose, and what that means here:
//
//	what                                   Kafka 4.4.0                       ours, and why                               in the replays
//	the leader's part of the high          its log's end: with one voter     its fsync: an acknowledged record must      the Fetch comes after
//	watermark                              the answer that brings a record   outlive a power loss; the answer has the    the fsync; then the
//	                                       counts it already                 high watermark of before                    bytes are the same
//	an answer with error 6 or 74 that      the same node is asked again at   the node is left alone for the retry        pick says whom it asks;
//	teaches nothing                        once: 40 Fetches in 200 ms        backoff, a bootstrap server is asked        the bytes are the same
//	the leader's connection breaks         fetch timer, 2 s                  one new connection at once                  failed, twice
//	... and is refused                     fetch timer                       an early pre-vote (testdata/refused.txtar)  not done: Kafka's timers are replayed
//	appends                                25 ms linger                      as soon as the disk is idle                 no difference in bytes
//	end of a shutdown                      the leader known, or 5 s          the same, and the core is silent then       the last answer is the last frame
//	errors of a FetchSnapshot's partition  top-level -1, by a bug            the error, with bytes that are empty        TestWireProbes
//	error messages                         its own                           our own words; codes are equal              TestWireProbes
var replays = []replay{
	{
		title: "elects a leader, upgrades, takes over when it is killed, stops", trace: "static", node: "1",
		bootstrap: []string{"1", "2", "3"}, static: []string{"1", "2", "3"},
		steps: "static-1",
	},
	{
		title: "is elected, upgrades, is killed", trace: "static", node: "2",
		bootstrap: []string{"1", "2", "3"}, static: []string{"1", "2", "3"},
		steps: "static-2",
	},
	{
		title: "restarts, is elected, stops", trace: "static", node: "2",
		bootstrap: []string{"1", "2", "3"}, static: []string{"1", "2", "3"},
		disk: "leader to=28 upgrade=1,2,3 to=42", epoch: 1, leader: 2,
		steps: "static-2-again",
	},
	{
		title: "follows three leaders, is elected, stops", trace: "static", node: "3",
		bootstrap: []string{"1", "2", "3"}, static: []string{"1", "2", "3"},
		steps: "static-3",
	},
	{
		title: "begins with a snapshot", trace: "static", node: "10", broker: true,
		bootstrap: []string{"1", "2", "3"},
		steps:     "static-10",
	},
	{
		title: "leads alone, adds and removes voters, is killed", trace: "dynamic", node: "1",
		bootstrap: []string{"1"}, zero: []string{"1"},
		steps: "dynamic-1",
	},
	{
		title: "restarts, follows, is elected", trace: "dynamic", node: "1",
		bootstrap: []string{"1", "2"}, zero: []string{"1"},
		disk: "start=1 to=38 voters=1,2 to=63 voters=1,2,3 to=91 voters=1,2 to=95", epoch: 1, leader: 1,
		steps: "dynamic-1-again",
	},
	{
		title: "joins, waits for its leader, is elected, stops", trace: "dynamic", node: "2",
		bootstrap: []string{"1"}, zero: []string{}, autoJoin: true,
		steps: "dynamic-2",
	},
	{
		title: "observes, is added and removed", trace: "dynamic", node: "3",
		bootstrap: []string{"1"}, zero: []string{},
		steps: "dynamic-3",
	},
	{
		title: "joins as a broker", trace: "dynamic", node: "10", broker: true,
		bootstrap: []string{"1"},
		steps:     "dynamic-10",
	},
	{
		title: "leads, a voter's disk is replaced, check quorum, is elected again", trace: "dynamic2", node: "1",
		bootstrap: []string{"1", "2", "3"}, zero: []string{"1", "2", "3old"},
		steps: "dynamic2-1",
	},
	{
		title: "follows", trace: "dynamic2", node: "2",
		bootstrap: []string{"1"}, zero: []string{"1", "2", "3old"},
		disk: "start=1,2,3old to=38", epoch: 1, leader: 1,
		steps: "dynamic2-2",
	},
	{
		title: "moves to another port, is frozen", trace: "dynamic2", node: "2moved",
		bootstrap: []string{"1"}, zero: []string{"1", "2", "3old"},
		disk: "start=1,2,3old to=45 voters=1,2 voters=1,2,3 to=64", epoch: 1, leader: 1,
		steps: "dynamic2-2moved",
	},
	{
		title: "has a new disk, is frozen", trace: "dynamic2", node: "3",
		bootstrap: []string{"1"}, zero: []string{}, autoJoin: true,
		steps: "dynamic2-3",
	},
}
