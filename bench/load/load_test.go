package load

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

func TestServe(t *testing.T) {
	var calls atomic.Int64
	commit := func(_ context.Context, client int) error {
		if client == 2 {
			return errors.New("not the leader")
		}
		calls.Add(1)
		return nil
	}
	var out strings.Builder
	if err := Serve(strings.NewReader(`{"Clients":2,"Millis":5}`+"\n"+`{"Clients":3}`), &out, commit); err != nil {
		t.Fatal(err)
	}
	results := json.NewDecoder(strings.NewReader(out.String()))
	var good, bad Result
	if err := errors.Join(results.Decode(&good), results.Decode(&bad)); err != nil {
		t.Fatal(err)
	}
	if good.Error != "" || good.PerSecond <= 0 || good.P99 < good.P50 || calls.Load() < 2 {
		t.Errorf("%+v after %d calls", good, calls.Load())
	}
	if bad.Error != "not the leader" {
		t.Errorf("%+v, want the error of client 2", bad)
	}
}
