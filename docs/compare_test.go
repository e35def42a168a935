package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ids are those of a text, numbered in the order in which they come.
type ids map[string]string

var (
	anyID = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	blank = regexp.MustCompile(`[ \t]+`)
)

// chance is what may differ from run to run.
var chance = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`127\.0\.0\.1`), "localhost"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`^#\w{3} \w{3} \d\d [\d:]+ .*`), "#TIME"},
	{regexp.MustCompile(`\bafter=\S+`), "after=TIME"},
	{regexp.MustCompile(`^(LeaderId|LeaderEpoch|HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): .*`), "$1: N"},
	{regexp.MustCompile(`\bfrom=\S+`), "from=LEADER"},
	{regexp.MustCompile(`\bEpoch: \d+`), "Epoch: N"},
	{regexp.MustCompile(`^(\d+) (ID\d+) -?\d+ \d+ -?\d+ -?\d+ (\w+)`), "$1 $2 N N N N $3"},
	{regexp.MustCompile(`\b(Leader|Follower) *$`), "Voter"},
}

var (
	table  = regexp.MustCompile(`(?m)(^\d+\s+\S{22}\s.*\n)+`) // of describe --replication
	voters = regexp.MustCompile(`\[(\{"id": .*?\})(, \{"id": .*?\})*\]`)
	member = regexp.MustCompile(`\{"id": .*?(\}\]|"\})`)
)

// order brings nodes, which come in the order in which they joined and the leader first, into that of their ids.
func order(text string) string {
	text = table.ReplaceAllStringFunc(text, func(rows string) string {
		lines := strings.Split(strings.TrimSuffix(rows, "\n"), "\n")
		slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(idAndStatus(a), idAndStatus(b)) })
		return strings.Join(lines, "\n") + "\n"
	})
	return voters.ReplaceAllStringFunc(text, func(list string) string {
		members := member.FindAllString(strings.Trim(list, "[]"), -1)
		slices.Sort(members)
		return "[" + strings.Join(members, ", ") + "]"
	})
}

// idAndStatus is what is no chance in a row of the table; a leader is a voter as a follower is one.
func idAndStatus(row string) string {
	fields := strings.Fields(row)
	return fields[0] + " " + strings.Replace(fields[len(fields)-1], "Leader", "Follower", 1)
}

// canonical is text without what may differ, a line each.
func canonical(text string, known ids) []string {
	var out []string
	text = order(text)
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		line = strings.TrimRight(blank.ReplaceAllString(line, " "), " ")
		line = anyID.ReplaceAllStringFunc(line, func(word string) string {
			if len(word) != 22 || !strings.ContainsAny(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
				return word
			}
			if known[word] == "" {
				known[word] = fmt.Sprintf("ID%d", len(known)+1)
			}
			return known[word]
		})
		for _, c := range chance {
			line = c.pattern.ReplaceAllString(line, c.instead)
		}
		out = append(out, line)
	}
	return out
}

// differs says where the lines that were printed are not those that the page has, "" for nowhere.
func differs(page, printed []string) string {
	for i, line := range page {
		if line == "..." {
			rest := page[i+1:]
			for skip := range len(printed) + 1 {
				if differs(rest, printed[skip:]) == "" {
					return ""
				}
			}
			return fmt.Sprintf("nothing printed goes on with %q", slices.Concat(rest, []string{""})[0])
		}
		if len(printed) == 0 {
			return fmt.Sprintf("%q is not printed", line)
		}
		if line != printed[0] {
			return fmt.Sprintf("the page has %q, where %q is printed", line, printed[0])
		}
		printed = printed[1:]
	}
	if len(printed) > 0 {
		return fmt.Sprintf("%q is printed and not in the page", printed[0])
	}
	return ""
}

// renew is what is printed, in the place of text; what ... stands for stays out.
func renew(text, output string) string {
	lines := strings.SplitAfter(text, "\n")
	if !slices.Contains(lines, "...\n") {
		return output
	}
	printed := strings.SplitAfter(output, "\n")
	for i, line := range lines {
		for _, p := range printed {
			if line != "...\n" && differs(canonical(line, ids{}), canonical(p, ids{})) == "" {
				lines[i] = p
				break
			}
		}
	}
	return strings.Join(lines, "")
}
