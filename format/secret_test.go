package format

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"kstorage/internal/disk/crashdisk"
)

// The password of the tests.
const marker = "geheimmarker"

// givesAway reports whether a printed text has the password, in whatever form.
func givesAway(text string) bool {
	text = strings.ToLower(text)
	for _, form := range []string{
		marker, fmt.Sprintf("%x", marker), fmt.Sprintf("% x", marker), fmt.Sprintf("%#x", marker),
		strings.Trim(fmt.Sprint([]byte(marker)), "[]"), strings.Trim(fmt.Sprintf("%#v", []byte(marker)), "[]byte{}"),
	} {
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

// printers print a value, or fail to.
func printers(v any) map[string]string {
	out := map[string]string{}
	for _, verb := range []string{"v", "+v", "#v", "s", "d", "x", "X", "q", "t", "b", "o", "c", "e", "p", "T", "U", "#x", "#q", "# x", "08v"} {
		out["%"+verb] = fmt.Sprintf("%"+verb, v)
	}
	out["Sprint"], out["Sprintln"] = fmt.Sprint(v), fmt.Sprintln(v)
	out["Errorf"] = fmt.Errorf("wrapped: %v", v).Error()
	b, err := json.Marshal(v)
	out["json"] = fmt.Sprint(string(b), err)
	var buffer bytes.Buffer
	err = gob.NewEncoder(&buffer).Encode(v)
	out["gob"] = fmt.Sprint(buffer.String(), err)
	for name, handler := range map[string]slog.Handler{"slog as text": slog.NewTextHandler(&buffer, nil), "slog as JSON": slog.NewJSONHandler(&buffer, nil)} {
		buffer.Reset()
		slog.New(handler).With("with", v).Info("message", "value", v, slog.Group("group", "value", v))
		out[name] = buffer.String()
	}
	return out
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	for _, printed := range []string{
		fmt.Sprintf("%v %q %s", marker, marker, marker), fmt.Sprintf("%x", marker), fmt.Sprintf("% X", marker), fmt.Sprintf("%#x", marker),
		fmt.Sprint([]byte(marker)), fmt.Sprintf("%#v", []byte(marker)), fmt.Sprintf("%v", struct{ any }{[]byte(marker)}),
	} {
		if !givesAway(printed) {
			t.Fatalf("this test does not find the password in %q", printed)
		}
	}
	type nested struct {
		Argument ScramArgument
		hidden   ScramArgument
		Pointer  *ScramArgument
		hiddenP  *ScramArgument
		List     []ScramArgument
		Map      map[string]ScramArgument
		Any      any
		Deeper   *nested
	}
	for _, text := range []string{"SCRAM-SHA-256=[name=alice,password=" + marker + "]", `SCRAM-SHA-512=[name="a",password="` + marker + `"]`} {
		a := NewScramArgument(text)
		o := standaloneOptions("/d1")
		o.Scram = []ScramArgument{a}
		p := mustPlan(t, o, crashdisk.New())
		applied := mustPlan(t, o, crashdisk.New())
		if _, err := applied.Apply(); err != nil {
			t.Fatal(err)
		}
		inner := nested{a, a, &a, &a, []ScramArgument{a}, map[string]ScramArgument{"a": a}, a, nil}
		outer := nested{Any: &inner, Deeper: &inner}
		values := []any{a, &a, ptrTo(&a), []ScramArgument{a}, []*ScramArgument{&a}, [1]ScramArgument{a}, map[string]any{"a": a}, inner, &inner, outer, &outer, o, &o, *p, p, *applied, applied,
			struct{ P *Plan }{p}, p.scram, []any{p.scram, &p.scram[0]}, struct{ error }{fmt.Errorf("%v %+v", a, p)}}
		for _, v := range values {
			for printer, got := range printers(v) {
				if givesAway(got) {
					t.Errorf("%s of %T: %s", printer, v, got)
				}
			}
		}
		if a.reveal() != text {
			t.Errorf("the argument is %q, want %q", a.reveal(), text)
		}
	}
}

func ptrTo[T any](v T) *T { return &v }

// Nor does an error have any part of an argument that is not well-formed.
func TestPasswordsAreNotInErrors(t *testing.T) {
	for _, text := range []string{
		marker, "SCRAM-SHA-256=" + marker, "SCRAM-SHA-256=[" + marker + "]", "SCRAM-SHA-256=[name=alice,password=a," + marker + "]",
		"SCRAM-SHA-256=[name=alice,password=" + marker, marker + "=[name=alice,password=x]", "SCRAM-SHA-256=[name=alice," + marker + "=x]",
		"SCRAM-SHA-256=[name=alice,password=" + marker + ",iterations=" + marker + "]", "SCRAM-SHA-256=[name=alice,password=" + marker + ",salt=" + marker + "!]",
		"SCRAM-SHA-256=[name=alice,salt=c2FsdA==,saltedpassword=" + marker + "!]", "SCRAM-SHA-256=[password=" + marker + "]", marker + "\xff",
	} {
		o := standaloneOptions("/d1")
		o.Scram = []ScramArgument{NewScramArgument(text)}
		_, err := newPlan(o, crashdisk.New())
		if !refused(BadCredential)(err) {
			t.Errorf("%q: got %v", text, err)
			continue
		}
		for printer, got := range printers(err) {
			if givesAway(got) {
				t.Errorf("%s of the error about %q: %s", printer, text, got)
			}
		}
	}
}
