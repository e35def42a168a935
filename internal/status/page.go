package status

import (
	_ "embed"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kstorage/internal/kafkaid"
	"kstorage/internal/metadata"
	"kstorage/internal/raft"
)

//go:embed style.css
var styleSheet string

const (
	reloadSeconds = 5
	maxRows       = 200 // of a table
)

// page shows a person how the node and its quorum are.
func page(s *State, r *http.Request) (int, string, []byte) {
	d := &document{}
	reloads := r.URL.Query().Get("reload") != "off"
	d.head(s, reloads)
	d.html("<main>\n")
	d.reason(s)
	d.nodeSection(s)
	if s.Quorum != nil {
		d.quorumSection(s, s.Quorum)
	}
	d.eventSection(s)
	if s.Metadata != nil {
		d.metadataSection(s, s.Metadata)
	}
	d.html("</main>\n")
	d.foot(s, reloads)
	return http.StatusOK, "text/html; charset=utf-8", []byte(d.b.String())
}

func (d *document) head(s *State, reloads bool) {
	d.html("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
	if reloads {
		d.html("<meta http-equiv=\"refresh\" content=\"")
		d.text(strconv.Itoa(reloadSeconds))
		d.html("\">\n")
	}
	class, word := markup("ready"), "ready"
	switch {
	case s.Fault != "":
		class, word = "fault", "fault"
	case s.Waits != "":
		class, word = "waits", "waiting"
	}
	d.html("<link rel=\"icon\" href=\"data:,\">\n<title>")
	d.textf("Node %d: %s", s.NodeID, word)
	d.html("</title>\n<style>\n" /* our own */)
	d.b.WriteString(styleSheet)
	d.html("</style>\n</head>\n<body>\n<header><h1>")
	d.textf("Node %d", s.NodeID)
	d.html("</h1><span class=\"badge ")
	d.html(class)
	d.html("\">")
	d.text(word)
	d.html("</span><p>")
	d.textf("%s · kstorage %s · up %s", strings.ReplaceAll(s.Roles, ",", " and "), s.Version, span(s.Now.Sub(s.Started)))
	d.html("</p></header>\n")
}

// reason says why the node is not ready.
func (d *document) reason(s *State) {
	switch {
	case s.Fault != "":
		d.html("<p class=\"reason fault\">")
		d.text(s.Fault)
		d.html("</p>\n")
	case s.Waits != "":
		d.html("<p class=\"reason waits\">Waiting for ")
		d.text(s.Waits)
		d.html("</p>\n")
	}
}

func (d *document) nodeSection(s *State) {
	d.html("<section aria-labelledby=\"node\">\n<h2 id=\"node\">Cluster</h2>\n<dl>\n")
	id := s.ClusterID
	if id == "" {
		id = "not known yet"
	}
	d.html("<div class=\"wide\"><dt>Cluster id</dt><dd><code>")
	d.text(id)
	d.html("</code> <small>")
	d.text(s.ClusterIDFrom)
	d.html("</small></dd></div>\n")
	if q := s.Quorum; q != nil {
		leader, note := "none known", ""
		if q.LeaderID != raft.None {
			leader, note = fmt.Sprintf("node %d", q.LeaderID), q.LeaderAddress
			if q.LeaderID == s.NodeID {
				leader += ", this one"
			}
		}
		d.fact("Leader", leader, note)
		d.fact("Epoch", strconv.Itoa(int(q.Epoch)), "")
		d.fact("This node is", q.State(), votes(q))
		d.fact("High watermark", offset(q.HighWatermark), "what is committed ends here")
		d.fact("Log end", offset(q.LogEnd), "of this node, from "+offset(q.LogStart))
	}
	if s.Broker != nil {
		d.fact("Broker", strings.ToLower(strings.ReplaceAll(s.Broker.State, "_", " ")), pushing(len(s.Pushes)))
	}
	if s.Controller != nil {
		active := "on standby"
		if s.Controller.Active {
			active = "active"
		}
		d.fact("Controller", active, "")
	}
	d.html("</dl>\n</section>\n")
}

func votes(q *Quorum) string {
	if !q.IsVoter {
		return "no voter"
	}
	switch q.Vote() {
	case raft.None:
		return "a voter, without a vote in this epoch"
	case q.LeaderID:
		return "a voter, has voted for the leader"
	}
	return fmt.Sprintf("a voter, has voted for node %d", q.Vote())
}

func pushing(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "one client pushes metrics"
	}
	return fmt.Sprintf("%d clients push metrics", n)
}

func (d *document) quorumSection(s *State, q *Quorum) {
	d.html("<section aria-labelledby=\"quorum\">\n<h2 id=\"quorum\">Quorum</h2>\n<dl>\n")
	d.fact("Voters", strconv.Itoa(len(q.Voters)), voterSetFrom(q))
	d.latency("Commit latency", q.Rates.Commit)
	d.latency("Election latency", q.Rates.Election)
	d.fact("Records a second", fmt.Sprintf("%.1f", q.Rates.Append+q.Rates.Fetch), "appended or fetched, of late")
	d.html("</dl>\n")
	addresses := map[raft.ReplicaKey]string{}
	for _, v := range q.Voters {
		for _, e := range v.Endpoints {
			addresses[v.Key] = join(addresses[v.Key], address(e.Host, e.Port))
		}
	}
	if q.Replicas == nil {
		var rows [][]string
		for _, v := range q.Voters {
			rows = append(rows, []string{strconv.Itoa(int(v.Key.NodeID)), role(q, v.Key.NodeID, true), directory(v.Key), addresses[v.Key]})
		}
		d.rows("Voters", []column{{name: "Node"}, {name: "Role"}, {name: "Directory id", isCode: true}, {name: "Address"}}, rows)
		if q.LeaderID != raft.None {
			d.html("<p class=\"note\">The leader knows the observers, and how far each replica is: look at ")
			d.textf("node %d, or run kstorage quorum describe --replication.", q.LeaderID)
			d.html("</p>\n")
		}
	} else {
		var rows [][]string
		for _, r := range q.Replicas {
			lag := "not fetched yet"
			if n := q.lag(r); n >= 0 {
				lag = strconv.FormatInt(n, 10)
			}
			rows = append(rows, []string{
				strconv.Itoa(int(r.Key.NodeID)), role(q, r.Key.NodeID, r.Voter), directory(r.Key), addresses[r.Key],
				offset(r.LogEnd), lag, ago(s.Now, r.LastFetch), ago(s.Now, r.LastCaughtUp),
			})
		}
		d.rows("Replicas", []column{
			{name: "Node"}, {name: "Role"}, {name: "Directory id", isCode: true}, {name: "Address"},
			{name: "Log end", isNum: true}, {name: "Lag", isNum: true}, {name: "Last fetch", isNum: true}, {name: "Caught up", isNum: true},
		}, rows)
	}
	d.html("</section>\n")
}

func voterSetFrom(q *Quorum) string {
	switch {
	case q.KRaftVersion == 0:
		return "from the configuration, kraft.version 0"
	case q.VotersOffset < 0:
		return "as the node was formatted"
	case q.VotersOffset >= q.HighWatermark:
		return fmt.Sprintf("changed at offset %d, not committed yet", q.VotersOffset)
	}
	return fmt.Sprintf("as of offset %d", q.VotersOffset)
}

func role(q *Quorum, id raft.NodeID, voter bool) string {
	switch {
	case id == q.LeaderID && voter:
		return "leader"
	case id == q.LeaderID:
		return "leader, no voter"
	case voter:
		return "voter"
	}
	return "observer"
}

func (d *document) metadataSection(s *State, m *Metadata) {
	d.html("<section aria-labelledby=\"metadata\">\n<h2 id=\"metadata\">Metadata</h2>\n<dl>\n")
	if m.Offset == raft.Unknown {
		d.fact("Loaded", "nothing yet", "")
	} else {
		d.fact("Loaded", fmt.Sprintf("up to offset %d", m.Offset), "written "+ago(s.Now, time.UnixMilli(m.Timestamp)))
	}
	version := "none yet"
	if m.Version != 0 {
		version = m.Version.String()
	}
	d.fact("metadata.version", version, "")
	d.fact("Topics", strconv.Itoa(m.Topics), fmt.Sprintf("with %d partitions", m.Partitions))
	if q := s.Quorum; q != nil {
		newest := "none yet"
		if n := len(q.Snapshots); n > 0 && q.Snapshots[n-1].EndOffset > 0 {
			newest = fmt.Sprintf("ends at %d", q.Snapshots[n-1].EndOffset)
		}
		d.fact("Newest snapshot", newest, "")
	}
	d.html("</dl>\n")
	var rows [][]string
	for _, l := range m.Levels {
		rows = append(rows, []string{l.Name, strconv.Itoa(int(l.Level))})
	}
	d.rows("Finalized features", []column{{name: "Feature"}, {name: "Level"}}, rows)
	rows = nil
	for _, b := range m.Brokers {
		_, state := registrationState(b)
		rack := ""
		if b.Rack != nil {
			rack = *b.Rack
		}
		rows = append(rows, []string{strconv.Itoa(int(b.ID)), state, endpoints(b.Endpoints), rack})
	}
	d.rows("Brokers", []column{{name: "Node"}, {name: "State"}, {name: "Listeners"}, {name: "Rack"}}, rows)
	rows = nil
	for _, c := range m.Controllers {
		rows = append(rows, []string{strconv.Itoa(int(c.ID)), endpoints(c.Endpoints)})
	}
	d.rows("Controllers", []column{{name: "Node"}, {name: "Listeners"}}, rows)
	d.html("</section>\n")
}

// rows writes a table that may be empty, or too long.
func (d *document) rows(caption markup, columns []column, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	d.table(caption, columns, rows[:min(len(rows), maxRows)])
	if more := len(rows) - maxRows; more > 0 {
		d.html("<p class=\"note\">")
		d.textf("and %d more", more)
		d.html("</p>\n")
	}
}

func (d *document) eventSection(s *State) {
	d.html("<section aria-labelledby=\"events\">\n<h2 id=\"events\">Recent events</h2>\n<ol>\n")
	for i := len(s.Events) - 1; i >= 0; i-- {
		e := s.Events[i]
		d.html("<li><time datetime=\"")
		d.text(e.Time.UTC().Format(time.RFC3339Nano))
		d.html("\" title=\"")
		d.text(e.Time.UTC().Format(time.RFC3339))
		d.html("\">")
		d.text(ago(s.Now, e.Time))
		d.html("</time><p>")
		switch {
		case e.Level >= slog.LevelError:
			d.html("<span class=\"level fault\">error</span>")
		case e.Level >= slog.LevelWarn:
			d.html("<span class=\"level waits\">warning</span>")
		}
		d.text(e.Text)
		if e.Attrs != "" {
			d.html(" <code>")
			d.text(e.Attrs)
			d.html("</code>")
		}
		d.html("</p></li>\n")
	}
	d.html("</ol>\n")
	if len(s.Events) == 0 {
		d.html("<p class=\"note\">none</p>\n")
	}
	d.html("</section>\n")
}

func (d *document) foot(s *State, reloads bool) {
	d.html("<footer>\n<p>As of <time datetime=\"")
	d.text(s.Now.UTC().Format(time.RFC3339))
	d.html("\">")
	d.text(s.Now.UTC().Format("2006-01-02 15:04:05 UTC"))
	if reloads {
		d.html("</time>, reloaded every ")
		d.text(strconv.Itoa(reloadSeconds))
		d.html(" seconds: <a href=\"/?reload=off\">stop that</a></p>\n")
	} else {
		d.html("</time>, not reloaded: <a href=\"/\">reload it again</a></p>\n")
	}
	d.html("<p><a href=\"/metrics\">metrics</a></p>\n<p><a href=\"/readyz\">readyz</a></p>\n<p><a href=\"/healthz\">healthz</a></p>\n</footer>\n</body>\n</html>\n")
}

func offset(o raft.Offset) string {
	if o == raft.Unknown {
		return "not known"
	}
	return strconv.FormatInt(int64(o), 10)
}

func directory(k raft.ReplicaKey) string {
	if k.DirectoryID == (raft.ReplicaKey{}).DirectoryID {
		return "not known"
	}
	return kafkaid.String(k.DirectoryID)
}

func (d *document) latency(name markup, l Latency) {
	if math.IsNaN(l.Avg) {
		d.fact(name, "none of late", "")
	} else {
		d.fact(name, fmt.Sprintf("%.2f ms", l.Avg), fmt.Sprintf("at most %.2f ms", l.Max))
	}
}

func endpoints(list []metadata.Endpoint) (out string) {
	for _, e := range list {
		out = join(out, e.Name+" "+address(e.Host, e.Port))
	}
	return out
}

func join(list, next string) string {
	if list == "" {
		return next
	}
	return list + ", " + next
}

// ago is how long before now something was; the zero time was never.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case d < time.Second:
		return "now"
	default:
		return span(d) + " ago"
	}
}

// span is a duration with its two largest units.
func span(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 60*60:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 24*60*60:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}

func address(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
