package metaprops

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

// stdout prints a report as `info` does.
func (r Report) stdout() string {
	var b strings.Builder
	section := func(one, many string, lines []string) {
		if len(lines) == 0 {
			return
		}
		if len(lines) > 1 {
			one = many
		}
		b.WriteString(one + ":\n")
		for _, line := range lines {
			b.WriteString("  " + line + "\n")
		}
		b.WriteString("\n")
	}
	section("Found log directory", "Found log directories", r.Found)
	if r.Metadata != "" {
		b.WriteString("Found metadata: " + r.Metadata + "\n\n")
	}
	section("Found problem", "Found problems", r.Problems)
	return b.String()
}

// The report is Kafka's, byte by byte, but for directory ids that are there twice.
func TestReportAsKafka(t *testing.T) {
	duplicates := 0
	for _, record := range records[dirsRecord](t, "dirs.jsonl") {
		r := record.load().Report(NoNode)
		r.Problems = slices.DeleteFunc(r.Problems, func(line string) bool {
			duplicate := strings.HasPrefix(line, "Duplicate directory ID ")
			if duplicate {
				duplicates++
			}
			return duplicate
		})
		status := 0
		if len(r.Problems) > 0 {
			status = 1
		}
		want := strings.ReplaceAll(record.Info, "$WORK", "/work")
		if got := r.stdout(); got != want || status != record.Status {
			t.Errorf("%+v: status %d\n%s\nKafka: %d\n%s", record.Dirs, status, got, record.Status, want)
		}
		if r.Unreadable != nil {
			t.Errorf("%+v: %v", record.Dirs, r.Unreadable)
		}
	}
	if duplicates == 0 {
		t.Error("no record has a duplicate directory id")
	}
}

// What Kafka's tool does not see.
func TestReportBeyondKafka(t *testing.T) {
	const a1 = "version=1\nnode.id=1\ncluster.id=A\n"
	tests := []struct {
		name     string
		files    map[string]string
		problems []string
		warnings []string
	}{
		{"a copied disk", map[string]string{"/d2": a1 + "directory.id=IPSRFnY5RtqEmJV5clXmdA", "/d1": a1 + "directory.id=IPSRFnY5RtqEmJV5clXmdA"},
			[]string{"Duplicate directory ID IPSRFnY5RtqEmJV5clXmdA found. It is the ID of /d1 and of /d2."}, nil},
		{"an empty file", map[string]string{"/d1": a1, "/d2": "#\n"},
			[]string{"Mismatched cluster IDs between storage directories."}, []string{"/d2/meta.properties is empty"}},
		{"a reserved id", map[string]string{"/d1": a1 + "directory.id=AAAAAAAAAAAAAAAAAAAAAA"}, nil,
			[]string{"/d1/meta.properties has the reserved directory id AAAAAAAAAAAAAAAAAAAAAA: a server refuses to start"}},
		{"another node id", map[string]string{"/d1": "version=1\nnode.id=7\ncluster.id=A\n"}, nil,
			[]string{"/d1/meta.properties has node id 7, but 1 is configured: a server refuses to start"}},
		{"version 2 that waits for its id", map[string]string{"/d1": "version=2\nnode.id=1\n", "/d2": a1}, nil, nil},
		{"version 2 with another id", map[string]string{"/d1": "version=2\nnode.id=1\ncluster.id=B", "/d2": a1},
			[]string{"Mismatched cluster IDs between storage directories."}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newDisk(tt.files).load().Report(1)
			if !slices.Equal(r.Problems, tt.problems) || !slices.Equal(r.Warnings, tt.warnings) {
				t.Errorf("problems %q, warnings %q; want %q, %q", r.Problems, r.Warnings, tt.problems, tt.warnings)
			}
		})
	}
}

func TestReportUnreadable(t *testing.T) {
	d := newDisk(map[string]string{"/fine": "version=1\nnode.id=1\ncluster.id=A\n", "/secret": "", "/escape": `a=\u00`, "/locked": ""})
	d.errs["/secret/meta.properties"] = syscall.EACCES
	d.errs["/locked/meta.properties"] = syscall.EACCES
	d.errs["stat /locked/meta.properties"] = syscall.EACCES
	d.errs["stat /hidden/dir"] = syscall.EACCES
	d.errs["stat /plain/dir"] = syscall.ENOTDIR
	r := Load([]string{"/fine/", "/secret", "/escape", "/locked", "/hidden/dir", "/plain/dir"}, "", d).Report(1)
	if want := []string{"/escape", "/fine", "/locked", "/secret"}; !slices.Equal(r.Found, want) {
		t.Errorf("found %q, want %q", r.Found, want)
	}
	want := []string{"/hidden/dir is not readable: permission denied", "/locked is not readable: permission denied", "/plain/dir does not exist"}
	if !slices.Equal(r.Problems, want) {
		t.Errorf("problems %q, want %q", r.Problems, want)
	}
	escape, secret, _ := strings.Cut(errorText(r.Unreadable), "\n")
	if !strings.HasPrefix(escape, "cannot decode /escape/meta.properties: line 1: ") || secret != "cannot read /secret/meta.properties: permission denied" {
		t.Errorf("unreadable:\n%s\n%s", escape, secret)
	}
}
