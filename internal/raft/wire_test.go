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
		steps: `
			# First it asks everybody, itself too.
			7.575 Fetch 1>1
			7.588 Fetch 1>1
			7.625 Fetch 1>2
			like 7.631 Fetch 2>2 ; 2
			7.928 Fetch 1>3
			like 7.761 Fetch 3>3 ; 3
			7.586 Fetch 3>1
			7.593 Fetch 2>1
			8.149 Vote 2>1
			8.168 Vote 1>2
			votes 2 1 0 0
			hidden Fetch 1
			8.305 BeginQuorumEpoch 2>1
			8.356 BeginQuorumEpoch 1>2
			is Follower 1 -1
			fetched leader
			fetched to=24 hw=1
			fetched hw=24
			idle 2000
			10.547 UpdateRaftVoter 1>2
			10.554 UpdateRaftVoter 2>1
			fetched to=27 hw=27
			# The leader raises kraft.version.
			fetched to=28 hw=27
			16.057 Fetch 1>2
			fetched upgrade=1,2,3 hw=28
			fetched to=42 hw=42
			# The leader is killed.
			failed 2
			pick 2
			failed 2
			22.026 Fetch 1>3
			pick 0
			22.028 Fetch 3>1
			22.034 Fetch 1>1
			22.039 Fetch 1>1
			failed 2
			22.043 Fetch 3>1
			tick 2000
			hidden Vote 2
			23.653 Vote 1>3
			23.658 Vote 3>1
			# The split vote of the recording: node 3 asks too late.
			23.659 Vote 3>1
			23.673 Vote 1>3
			hidden Vote 2
			granted 3
			is Leader 2 42
			23.861 BeginQuorumEpoch 1>3
			23.938 BeginQuorumEpoch 3>1
			failed 2
			fetches 3 43 2 -1
			append 50
			fetches 3 50 2 -1
			fetches 3 50 2 50
			append 51
			28.041 Fetch 1>3
			28.045 Fetch 3>1
			# The old leader is back.
			29.802 EndQuorumEpoch 2>1
			29.928 EndQuorumEpoch 1>2
			29.979 Fetch 2>1
			append 102
			fetches 3 102 2 -1
			snapshot 102 2 900
			clean
			append 171
			fetches 3 171 2 171
			fetches 3 171 2 -1
			fetches 3 171 2 171
			tick 500
			88.285 Fetch 1>3
			88.308 Fetch 3>1
			88.332 Fetch 2>1
			append 175
			fetches 3 175 2 -1
			snapshot 175 2 1307
			# A broker begins, from nothing.
			90.017 Fetch 10>1
			fetches 10 0 0 -1
			90.066 FetchSnapshot 10>1
			90.073 FetchSnapshot 1>10
			append 188
			fetches 2 188 2 -1
			fetches 3 188 2 188
			fetches 10 188 2 188
			# It is stopped.
			shutdown
			94.942 Fetch 1>10
			94.957 EndQuorumEpoch 1>3
			95.032 EndQuorumEpoch 1>2
			94.945 Fetch 3>1
			94.946 Fetch 10>1
			94.949 Fetch 2>1
			94.959 EndQuorumEpoch 3>1
			95.051 EndQuorumEpoch 2>1
			95.068 Vote 2>1
			95.070 Vote 1>2
			votes 2 3 2 188
			hidden Fetch 1
			95.208 BeginQuorumEpoch 2>1
			95.262 BeginQuorumEpoch 1>2
		`,
	},
	{
		title: "is elected, upgrades, is killed", trace: "static", node: "2",
		bootstrap: []string{"1", "2", "3"}, static: []string{"1", "2", "3"},
		steps: `
			7.593 Fetch 2>1
			like 7.588 Fetch 1>1 ; 1
			7.622 Fetch 2>2
			7.631 Fetch 2>2
			7.753 Fetch 2>3
			like 7.761 Fetch 3>3 ; 3
			7.625 Fetch 1>2
			7.778 Fetch 3>2
			tick 1000
			8.149 Vote 2>1
			8.151 Vote 2>3
			8.168 Vote 1>2
			8.172 Vote 3>2
			hidden Vote 3
			granted 1
			is Leader 1 -1
			8.302 BeginQuorumEpoch 2>3
			8.305 BeginQuorumEpoch 2>1
			8.356 BeginQuorumEpoch 1>2
			8.359 BeginQuorumEpoch 3>2
			fetches 1 0 0 -1
			fetches 3 0 0 -1
			fetches 1 1 1 -1
			10.547 UpdateRaftVoter 1>2
			10.554 UpdateRaftVoter 2>1
			10.554 UpdateRaftVoter 3>2
			append 27
			fetches 1 27 1 -1
			fetches 3 27 1 27
			append 28
			16.043 Fetch 2>3
			16.057 Fetch 1>2
			16.059 Fetch 3>2
			upgrade
			fetches 1 30 1 -1
			append 42
			fetches 1 42 1 -1
			fetches 3 42 1 -1
			21.935 DescribeQuorum tool>2
			21.940 DescribeQuorum 2>tool
		`,
	},
	{
		title: "restarts, is elected, stops", trace: "static", node: "2",
		bootstrap: []string{"1", "2", "3"}, static: []string{"1", "2", "3"},
		disk: "leader to=28 upgrade=1,2,3 to=42", epoch: 1, leader: 2,
		steps: `
			is Resigned 1 -1
			29.802 EndQuorumEpoch 2>1
			29.803 EndQuorumEpoch 2>3
			29.908 EndQuorumEpoch 3>2
			29.928 EndQuorumEpoch 1>2
			is Follower 2 -1
			29.979 Fetch 2>1
			fetched leader hw=-1
			fetched to=154 hw=43
			fetched to=171 hw=171
			snapshot 154 2 900
			clean
			88.332 Fetch 2>1
			fetched to=188 hw=188
			# The leader is stopped.
			like 94.942 Fetch 1>10 ; 1
			94.949 Fetch 2>1
			95.032 EndQuorumEpoch 1>2
			95.051 EndQuorumEpoch 2>1
			95.067 Vote 2>3
			95.068 Vote 2>1
			95.070 Vote 1>2
			95.072 Vote 3>2
			hidden Vote 1
			granted 3
			is Leader 3 188
			95.208 BeginQuorumEpoch 2>1
			95.208 BeginQuorumEpoch 2>3
			95.166 Fetch 10>2
			95.262 BeginQuorumEpoch 1>2
			waited
			95.266 Fetch 2>10
			95.273 BeginQuorumEpoch 3>2
			95.290 Fetch 3>2
			fetches 3 189 3 -1
			append 195
			fetches 3 195 3 -1
			fetches 10 195 3 195
			append 196 87
			waited
			hidden BeginQuorumEpoch 1
			98.537 Fetch 2>10
			98.549 Fetch 10>2
			98.596 Fetch 3>2
			append 197
			fetches 3 197 3 -1
			fetches 3 197 3 197
			shutdown
			99.200 Fetch 2>3
			99.205 EndQuorumEpoch 2>3
			hidden EndQuorumEpoch 1
			99.200 Fetch 3>2
			99.206 EndQuorumEpoch 3>2
			99.209 Vote 3>2
			99.214 Vote 2>3
			votes 3 4 3 197
			hidden Fetch 1
			99.341 EndQuorumEpoch 3>2
			99.369 EndQuorumEpoch 2>3
		`,
	},
	{
		title: "follows three leaders, is elected, stops", trace: "static", node: "3",
		bootstrap: []string{"1", "2", "3"}, static: []string{"1", "2", "3"},
		steps: `
			7.586 Fetch 3>1
			pick 1
			like 7.588 Fetch 1>1 ; 1
			pick 0
			7.748 Fetch 3>3
			7.761 Fetch 3>3
			7.778 Fetch 3>2
			like 7.631 Fetch 2>2 ; 2
			7.753 Fetch 2>3
			7.928 Fetch 1>3
			8.151 Vote 2>3
			8.172 Vote 3>2
			votes 2 1 0 0
			hidden Fetch 1
			8.302 BeginQuorumEpoch 2>3
			8.359 BeginQuorumEpoch 3>2
			fetched leader
			idle 2000
			10.554 UpdateRaftVoter 3>2
			like 10.554 UpdateRaftVoter 2>1 ; 2
			fetched to=27 hw=27
			16.043 Fetch 2>3 to=28
			16.059 Fetch 3>2
			fetched upgrade=1,2,3 hw=28
			fetched to=42 hw=42
			# The leader is killed.
			failed 2
			pick 2
			failed 2
			pick 0
			22.026 Fetch 3>3
			like 22.028 Fetch 3>1 ; 3
			22.043 Fetch 3>1
			like 22.039 Fetch 1>1 ; 1
			failed 2
			22.026 Fetch 1>3
			22.028 Fetch 3>1
			tick 2000
			hidden Vote 2
			23.659 Vote 3>1
			23.653 Vote 1>3
			23.658 Vote 3>1
			23.673 Vote 1>3
			hidden Fetch 1
			votes 1 2 1 42
			23.861 BeginQuorumEpoch 1>3
			23.938 BeginQuorumEpoch 3>1
			fetched leader hw=-1
			fetched to=50 hw=50
			28.041 Fetch 1>3 to=51
			28.045 Fetch 3>1
			29.803 EndQuorumEpoch 2>3
			29.908 EndQuorumEpoch 3>2
			fetched to=101 hw=101
			fetched to=171 hw=171
			snapshot 101 2 900
			clean
			88.285 Fetch 1>3
			88.308 Fetch 3>1
			fetched to=188 hw=188
			# The leader is stopped.
			like 94.942 Fetch 1>10 ; 1
			94.945 Fetch 3>1
			94.957 EndQuorumEpoch 1>3
			94.959 EndQuorumEpoch 3>1
			95.067 Vote 2>3
			95.072 Vote 3>2
			votes 2 3 2 188
			hidden Fetch 1
			95.145 Fetch 10>3
			95.156 Fetch 3>10
			95.208 BeginQuorumEpoch 2>3
			95.273 BeginQuorumEpoch 3>2
			95.290 Fetch 3>2
			fetched leader hw=-1
			fetched to=195 hw=195
			fetched to=196 hw=195
			98.596 Fetch 3>2
			fetched to=197 hw=197
			# All are stopped.
			pick 1
			99.200 Fetch 2>3
			99.200 Fetch 3>2
			99.205 EndQuorumEpoch 2>3
			99.206 EndQuorumEpoch 3>2
			hidden Vote 1
			99.209 Vote 3>2
			99.214 Vote 2>3
			hidden Vote 1
			granted 2
			is Leader 4 197
			hidden BeginQuorumEpoch 1
			hidden BeginQuorumEpoch 2
			shutdown
			hidden EndQuorumEpoch 1
			99.341 EndQuorumEpoch 3>2
			99.369 EndQuorumEpoch 2>3
		`,
	},
	{
		title: "begins with a snapshot", trace: "static", node: "10", broker: true,
		bootstrap: []string{"1", "2", "3"},
		steps: `
			90.017 Fetch 10>1
			fenced 1 1 2
			offered 175 2
			90.066 FetchSnapshot 10>1
			90.073 FetchSnapshot 1>10
			is Follower 2 175
			fetched to=188 hw=188
			# The leader is stopped.
			94.942 Fetch 1>10
			94.946 Fetch 10>1
			pick 2
			like 95.156 Fetch 3>10 ; 1
			95.145 Fetch 10>3
			pick 1
			95.156 Fetch 3>10
			95.166 Fetch 10>2
			95.266 Fetch 2>10 leader
			is Follower 3 188
			fetched to=195 hw=195
			98.537 Fetch 2>10 to=196
			98.549 Fetch 10>2
		`,
	},
	{
		title: "leads alone, adds and removes voters, is killed", trace: "dynamic", node: "1",
		bootstrap: []string{"1"}, zero: []string{"1"},
		steps: `
			is Leader 1 3
			5.076 Fetch 10>1
			5.105 Fetch 1>10
			append 30
			append 31
			fetches 10 30 1 30
			8.983 Fetch 1>10
			8.987 Fetch 10>1
			# Node 2 comes, and joins by itself.
			10.466 Fetch 2>1
			append 38
			fetches 2 38 1 -1
			12.496 AddRaftVoter 2>1
			12.503 ApiVersions 1>2
			12.521 ApiVersions 2>1
			12.529 AddRaftVoter 1>2
			fetches 2 39 1 39
			append 48
			fetches 2 48 1 48
			fetches 2 48 1 48
			fetches 10 48 1 48
			append 49
			waited
			16.988 Fetch 1>10
			16.992 Fetch 10>1
			16.999 Fetch 2>1
			17.637 Fetch 3>1
			append 59
			fetches 2 59 1 -1
			fetches 10 59 1 59
			append 60
			waited
			21.993 Fetch 1>10
			22.000 Fetch 10>1
			22.004 Fetch 3>1
			22.006 Fetch 2>1
			22.394 DescribeQuorum tool>1
			22.398 DescribeQuorum 1>tool
			fetches 2 60 1 60
			append 61
			22.487 Fetch 1>2
			22.495 Fetch 10>1
			22.495 Fetch 2>1
			22.501 Fetch 3>1
			append 62
			fetches 2 62 1 -1
			fetches 10 62 1 62
			append 63
			waited
			23.493 Fetch 1>10
			23.497 Fetch 10>1
			23.504 Fetch 3>1
			23.507 Fetch 2>1
			# The tool adds node 3.
			23.859 AddRaftVoter tool>1
			23.861 ApiVersions 1>3
			23.881 ApiVersions 3>1
			fetches 2 64 1 -1
			23.900 AddRaftVoter 1>tool
			append 68
			fetches 2 68 1 -1
			fetches 10 68 1 68
			append 69
			waited
			25.991 Fetch 1>10
			25.999 Fetch 10>1
			26.005 Fetch 2>1
			26.006 Fetch 3>1
			append 70
			fetches 2 70 1 -1
			fetches 10 70 1 70
			append 71
			waited
			26.995 Fetch 1>10
			27.003 Fetch 10>1
			27.008 Fetch 3>1
			27.012 Fetch 2>1
			append 90
			fetches 2 90 1 -1
			fetches 10 90 1 90
			append 91
			waited
			34.502 Fetch 1>10
			34.503 Fetch 10>1
			34.512 Fetch 3>1
			34.512 Fetch 2>1
			# The tool removes node 3.
			34.997 RemoveRaftVoter tool>1
			fetches 2 92 1 -1
			35.030 RemoveRaftVoter 1>tool
		`,
	},
	{
		title: "restarts, follows, is elected", trace: "dynamic", node: "1",
		bootstrap: []string{"1", "2"}, zero: []string{"1"},
		disk: "start=1 to=38 voters=1,2 to=63 voters=1,2,3 to=91 voters=1,2 to=95", epoch: 1, leader: 1,
		steps: `
			is Resigned 1 -1
			44.487 EndQuorumEpoch 1>2
			44.494 EndQuorumEpoch 2>1
			44.697 Fetch 3>1
			44.708 Fetch 1>3
			45.116 Vote 2>1
			45.129 Vote 1>2
			45.135 Fetch 10>1
			votes 2 2 1 95
			45.184 Fetch 1>1
			45.242 BeginQuorumEpoch 2>1
			45.250 BeginQuorumEpoch 1>2
			45.251 Fetch 1>2
			45.261 Fetch 2>1 leader
			fetched to=106 hw=106
			fetched to=107 hw=106
			50.145 Fetch 1>2
			fetched to=110 hw=110
			# The leader is stopped.
			pick 1
			51.690 Fetch 2>1
			51.695 Fetch 1>2
			51.707 EndQuorumEpoch 2>1
			51.715 EndQuorumEpoch 1>2
			51.720 Vote 1>2
			51.727 Vote 2>1
			granted 2
			is Leader 3 110
			51.785 BeginQuorumEpoch 1>2
			51.795 BeginQuorumEpoch 2>1
		`,
	},
	{
		title: "joins, waits for its leader, is elected, stops", trace: "dynamic", node: "2",
		bootstrap: []string{"1"}, zero: []string{}, autoJoin: true,
		steps: `
			10.466 Fetch 2>1
			like 5.105 Fetch 1>10 ; 1
			is Follower 1 -1
			fetched start=1 to=38 hw=38
			fetched hw=38
			idle 2000
			12.496 AddRaftVoter 2>1
			12.529 AddRaftVoter 1>2
			fetched voters=1,2 hw=38
			fetched to=48 hw=48
			fetched to=49 hw=48
			16.999 Fetch 2>1
			fetched to=59 hw=59
			fetched to=60 hw=59
			22.006 Fetch 2>1
			fetched hw=60
			22.487 Fetch 1>2 to=61
			22.495 Fetch 2>1
			fetched to=62 hw=62
			fetched to=63 hw=62
			23.507 Fetch 2>1
			fetched voters=1,2,3 to=68 hw=68
			fetched to=69 hw=68
			26.005 Fetch 2>1
			fetched to=70 hw=70
			fetched to=71 hw=70
			27.012 Fetch 2>1
			fetched to=90 hw=90
			fetched to=91 hw=90
			34.512 Fetch 2>1
			fetched voters=1,2 to=95 hw=95
			# The leader is killed, and comes back.
			failed 1
			failed 1
			failed 1
			44.487 EndQuorumEpoch 1>2
			44.494 EndQuorumEpoch 2>1
			tick 1000
			45.116 Vote 2>1
			45.129 Vote 1>2
			granted 1
			is Leader 2 95
			45.242 BeginQuorumEpoch 2>1
			45.250 BeginQuorumEpoch 1>2
			45.251 Fetch 1>2
			45.261 Fetch 2>1
			45.264 Fetch 10>2
			45.265 Fetch 3>2
			fetches 1 96 2 -1
			append 106
			fetches 1 106 2 -1
			fetches 3 106 2 106
			append 107 87
			waited
			50.132 Fetch 2>3
			50.138 Fetch 10>2
			50.141 Fetch 3>2
			50.145 Fetch 1>2
			append 110
			fetches 1 110 2 -1
			fetches 1 110 2 110
			shutdown
			51.690 Fetch 2>1
			51.695 Fetch 1>2
			51.707 EndQuorumEpoch 2>1
			51.715 EndQuorumEpoch 1>2
			51.720 Vote 1>2
			51.727 Vote 2>1
			votes 1 3 2 110
			hidden Fetch 1
			51.785 BeginQuorumEpoch 1>2
			51.795 BeginQuorumEpoch 2>1
		`,
	},
	{
		title: "observes, is added and removed", trace: "dynamic", node: "3",
		bootstrap: []string{"1"}, zero: []string{},
		steps: `
			17.637 Fetch 3>1
			like 5.105 Fetch 1>10 ; 1
			fetched start=1 to=38 voters=1,2 to=59 hw=59
			fetched to=60 hw=59
			22.004 Fetch 3>1
			fetched hw=60
			fetched to=61 hw=60
			22.501 Fetch 3>1
			fetched to=62 hw=62
			fetched to=63 hw=62
			23.504 Fetch 3>1
			fetched voters=1,2,3 to=68 hw=68
			fetched to=69 hw=68
			26.006 Fetch 3>1
			fetched to=70 hw=70
			fetched to=71 hw=70
			27.008 Fetch 3>1
			fetched to=90 hw=90
			fetched to=91 hw=90
			34.512 Fetch 3>1
			fetched voters=1,2 to=95 hw=95
			# The leader is killed, and comes back.
			failed 1
			failed 1
			44.697 Fetch 3>1
			44.708 Fetch 1>3
			tick 20
			fenced 1 2 2
			45.265 Fetch 3>2
			fetched leader hw=-1
			fetched to=106 hw=106
			50.132 Fetch 2>3 to=107
			50.141 Fetch 3>2
		`,
	},
	{
		title: "joins as a broker", trace: "dynamic", node: "10", broker: true,
		bootstrap: []string{"1"},
		steps: `
			5.076 Fetch 10>1
			5.105 Fetch 1>10
			is Follower 1 -1
			fetched start=1 to=30 hw=30
			8.983 Fetch 1>10 to=31
			8.987 Fetch 10>1
			fetched to=38 voters=1,2 to=48 hw=48
			16.988 Fetch 1>10 to=49
			16.992 Fetch 10>1
			fetched to=59 hw=59
			21.993 Fetch 1>10 to=60
			22.000 Fetch 10>1
			fetched hw=60
			fetched to=61 hw=60
			22.495 Fetch 10>1
			fetched to=62 hw=62
			23.493 Fetch 1>10 to=63
			23.497 Fetch 10>1
			fetched voters=1,2,3 to=68 hw=68
			25.991 Fetch 1>10 to=69
			25.999 Fetch 10>1
			fetched to=70 hw=70
			26.995 Fetch 1>10 to=71
			27.003 Fetch 10>1
			fetched to=90 hw=90
			34.502 Fetch 1>10 to=91
			34.503 Fetch 10>1
			fetched voters=1,2 to=95 hw=95
			failed 1
			failed 1
			45.135 Fetch 10>1
			fenced 1 2 2
			45.264 Fetch 10>2
			fetched leader hw=-1
			fetched to=106 hw=106
			fetched to=107 hw=106
			50.138 Fetch 10>2
		`,
	},
	{
		title: "leads, a voter's disk is replaced, check quorum, is elected again", trace: "dynamic2", node: "1",
		bootstrap: []string{"1", "2", "3"}, zero: []string{"1", "2", "3old"},
		steps: `
			hidden Fetch 1
			tick 1000
			granted 2
			hidden Vote 3
			granted 2
			hidden Vote 3
			is Leader 1 -1
			failed 2
			failed 3
			append 39
			fetches 3old 39 1 -1
			fetches 2 39 1 -1
			fetches 2 39 1 39
			append 40
			13.022 Fetch 1>2
			13.044 Fetch 2>1
			15.362 Fetch 3>1
			tick 999
			fetches 2 40 1 40
			tick 1
			16.422 BeginQuorumEpoch 1>3
			16.429 BeginQuorumEpoch 3>1
			fetches 3 40 1 40
			17.556 RemoveRaftVoter 3>1
			fetches 2 41 1 -1
			17.573 RemoveRaftVoter 1>3
			fetches 3 41 1 41
			tick 500
			20.057 AddRaftVoter 3>1
			probed 3
			20.065 AddRaftVoter 1>3
			fetches 2 42 1 -1
			fetches 3 42 1 -1
			append 64
			fetches 2 64 1 -1
			fetches 3 64 1 -1
			23.770 DescribeQuorum tool>1
			23.775 DescribeQuorum 1>tool
			fetches 3 64 1 64
			append 65
			24.049 Fetch 1>3
			24.059 Fetch 3>1
			# Node 2 has moved.
			25.698 Fetch 2>1
			27.691 UpdateRaftVoter 2>1
			27.698 UpdateRaftVoter 1>2
			append 82
			fetches 2 82 1 -1
			31.919 DescribeQuorum tool>1
			fetches 3 82 1 82
			append 83
			32.187 Fetch 1>3
			# The others are frozen.
			append 88
			tick 1000
			33.514 BeginQuorumEpoch 1>3
			hidden BeginQuorumEpoch 2
			tick 2000
			is Resigned 1 82
			hidden EndQuorumEpoch 2
			hidden EndQuorumEpoch 3
			tick 1000
			is Prospective 2 82
			39.280 Vote 2>1
			39.282 Vote 1>2
			39.283 Vote 3>1
			hidden Vote 2
			39.300 Vote 1>3
			granted 3
			hidden Vote 2
			granted 3
			is Leader 3 82
			39.330 BeginQuorumEpoch 1>3
			39.341 BeginQuorumEpoch 3>1
			40.334 BeginQuorumEpoch 1>2
			40.345 BeginQuorumEpoch 2>1
		`,
	},
	{
		title: "follows", trace: "dynamic2", node: "2",
		bootstrap: []string{"1"}, zero: []string{"1", "2", "3old"},
		disk: "start=1,2,3old to=38", epoch: 1, leader: 1,
		steps: `
			fetched to=39 hw=39
			13.022 Fetch 1>2 to=40
			13.044 Fetch 2>1
		`,
	},
	{
		title: "moves to another port, is frozen", trace: "dynamic2", node: "2moved",
		bootstrap: []string{"1"}, zero: []string{"1", "2", "3old"},
		disk: "start=1,2,3old to=45 voters=1,2 voters=1,2,3 to=64", epoch: 1, leader: 1,
		steps: `
			25.698 Fetch 2>1
			fetched to=70 hw=70
			fetched hw=70
			idle 2000
			27.691 UpdateRaftVoter 2>1
			27.698 UpdateRaftVoter 1>2
			fetched voters=1,2moved,3 to=82 hw=82
			tick 2000
			39.255 Vote 2>3
			39.280 Vote 2>1
			39.254 Vote 3>2
			39.270 Vote 2>3
			39.282 Vote 1>2
			hidden Fetch 1
			hidden Fetch 1
			40.334 BeginQuorumEpoch 1>2
			40.345 BeginQuorumEpoch 2>1
		`,
	},
	{
		title: "has a new disk, is frozen", trace: "dynamic2", node: "3",
		bootstrap: []string{"1"}, zero: []string{}, autoJoin: true,
		steps: `
			15.362 Fetch 3>1
			fenced 1 1 1
			fetched start=1,2,3old to=45 hw=45
			16.422 BeginQuorumEpoch 1>3
			16.429 BeginQuorumEpoch 3>1
			fetched hw=45
			idle 2000
			17.556 RemoveRaftVoter 3>1
			17.573 RemoveRaftVoter 1>3
			fetched voters=1,2 hw=45
			fetched hw=46
			idle 2000
			20.057 AddRaftVoter 3>1
			20.065 AddRaftVoter 1>3
			fetched voters=1,2,3 to=64 hw=64
			24.049 Fetch 1>3 to=65
			24.059 Fetch 3>1
			fetched voters=1,2moved,3 to=82 hw=82
			33.514 BeginQuorumEpoch 1>3
			hidden Fetch 1
			tick 2000
			39.254 Vote 3>2
			39.283 Vote 3>1
			39.255 Vote 2>3
			39.270 Vote 3>2
			39.270 Vote 2>3
			hidden Vote 1
			hidden Vote 2
			39.300 Vote 1>3
			39.330 BeginQuorumEpoch 1>3
			39.341 BeginQuorumEpoch 3>1
		`,
	},
}
