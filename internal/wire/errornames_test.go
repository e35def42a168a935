package wire

import "testing"

func TestErrorName(t *testing.T) {
	for code, want := range map[int16]string{
		-1: "UNKNOWN_SERVER_ERROR", 0: "NONE", 41: "NOT_CONTROLLER", 104: "INCONSISTENT_CLUSTER_ID", 127: "VOTER_NOT_FOUND",
		-2: "error -2", 9999: "error 9999",
	} {
		if got := ErrorName(code); got != want {
			t.Errorf("error %d: %s, want %s", code, got, want)
		}
	}
}
