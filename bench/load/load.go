// Package load is what the benchmarks of commits put on a system, the same for each: clients in a closed loop, each of which
// waits until its record is committed before it writes the next one. The process that has the clients takes orders on
// its standard input, and answers on its standard output, a JSON document a line each.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// PayloadBytes is the length of a record's value. It is that of a config of a broker, which makes a batch of 115 bytes in
// Kafka's log: the mean of a large cluster's metadata. What another system puts around the same value is its own.
const PayloadBytes = 46

// patience is how long a commit may take. Only a system that has failed takes so long.
const patience = 30 * time.Second

// Order asks for a load: so many clients go on for a time, and each commits one record at least.
type Order struct{ Clients, Millis int }

// Result is what came of it.
type Result struct {
	P50, P99  float64 // milliseconds from a client's call to the commit
	PerSecond float64 // records
	Error     string  // of the first commit that failed; then there is nothing else
}

// Serve carries out orders until in ends. commit writes a record for a client, which counts from 0, and waits until it is
// committed; it may be called by all clients at once.
func Serve(in io.Reader, out io.Writer, commit func(ctx context.Context, client int) error) error {
	orders, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		result, err := Run(o, commit)
		if err != nil {
			result = Result{Error: err.Error()}
		}
		if err := results.Encode(result); err != nil {
			return err
		}
	}
}

// Run carries out one order. Errors: that of the first commit that failed.
func Run(o Order, commit func(ctx context.Context, client int) error) (Result, error) {
	end := time.Now().Add(time.Duration(o.Millis) * time.Millisecond)
	ctx, cancel := context.WithDeadlineCause(context.Background(), end.Add(patience), errors.New("a commit takes too long"))
	defer cancel()
	all := make([][]time.Duration, o.Clients)
	failures := make(chan error, o.Clients)
	var clients sync.WaitGroup
	began := time.Now()
	for client := range o.Clients {
		clients.Go(func() {
			for {
				before := time.Now()
				if err := commit(ctx, client); err != nil {
					failures <- err
					cancel()
					return
				}
				now := time.Now()
				all[client] = append(all[client], now.Sub(before))
				if !now.Before(end) {
					return
				}
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	select {
	case err := <-failures:
		return Result{}, err
	default:
	}
	samples := slices.Sorted(slices.Values(slices.Concat(all...)))
	at := func(q float64) float64 {
		return float64(samples[int(q*float64(len(samples)-1))].Nanoseconds()) / 1e6
	}
	return Result{P50: at(0.5), P99: at(0.99), PerSecond: float64(len(samples)) / took.Seconds()}, nil
}
