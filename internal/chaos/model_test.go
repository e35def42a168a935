package chaos

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

// registered is the registration of one broker id, as far as its clients can tell.
type registered struct {
	incarnation uuid.UUID // zero: there is none
	epoch       int64     // unknownEpoch: nobody was told
	floor       int64     // an epoch that was given before
}

const unknownEpoch = -1

// model is the active controller as Kafka specifies it for one broker id: an incarnation that registers again
// keeps its epoch, which so is read; another one gets a higher epoch than all before, which is an offset of the
// log; only what is registered can be unregistered. Each request writes, so each answer waits until it is
// committed, and what it says is true then. (A heartbeat only reads: a leader that doesn't know yet that it was
// replaced answers it from the past, in Kafka too.)
//
// A request without an answer has been done at some time behind its call, or will be, or won't.
var model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		of := map[int32]int{}
		var parts [][]porcupine.Operation
		for _, o := range history {
			broker := o.Input.(operation).broker
			if _, ok := of[broker]; !ok {
				of[broker] = len(parts)
				parts = append(parts, nil)
			}
			parts[of[broker]] = append(parts[of[broker]], o)
		}
		return parts
	},
	Init: func() []any { return []any{registered{epoch: unknownEpoch, floor: unknownEpoch}} },
	Step: func(state, input, _ any) []any {
		s, o := state.(registered), input.(operation)
		after, ok := s.after(o)
		var states []any
		if ok {
			states = append(states, after)
		}
		if !o.answered {
			states = append(states, s)
		}
		return states
	},
}).ToModel()

// after is the state behind an operation; false if it cannot have been done with this answer.
func (s registered) after(o operation) (registered, bool) {
	switch {
	case o.incarnation == uuid.Nil:
		return registered{epoch: unknownEpoch, floor: s.floor}, s.incarnation != uuid.Nil
	case o.incarnation == s.incarnation && (!o.answered || s.epoch == o.epoch):
		return s, true
	case o.incarnation == s.incarnation && s.epoch != unknownEpoch:
		return s, false
	case !o.answered:
		return registered{o.incarnation, unknownEpoch, s.floor}, true
	}
	return registered{o.incarnation, o.epoch, o.epoch}, o.epoch > s.floor
}

// checkHistory checks that the history of each broker is linearizable; and of all brokers together, that epochs
// grow with time.
func checkHistory(t testing.TB, history []operation) {
	t.Helper()
	var all []porcupine.Operation
	for _, o := range history {
		p := porcupine.Operation{ClientId: o.client, Input: o, Call: int64(o.call), Return: int64(o.end)}
		if !o.answered {
			p.Return = math.MaxInt64
		}
		all = append(all, p)
	}
	for _, part := range model.Partition(all) {
		if result := porcupine.CheckOperationsTimeout(model, part, time.Minute); result != porcupine.Ok {
			t.Errorf("the history of broker %d is not linearizable (%s):", part[0].Input.(operation).broker, result)
			for _, o := range part {
				t.Logf("  %+v", o.Input)
			}
		}
	}

	var ended []operation
	for _, o := range history {
		if o.answered && o.fresh {
			ended = append(ended, o)
		}
	}
	called := slices.Clone(ended)
	slices.SortFunc(ended, func(a, b operation) int { return int(a.end - b.end) })
	slices.SortFunc(called, func(a, b operation) int { return int(a.call - b.call) })
	highest := operation{epoch: -1}
	for _, o := range called {
		for ; len(ended) > 0 && ended[0].end < o.call; ended = ended[1:] {
			if ended[0].epoch > highest.epoch {
				highest = ended[0]
			}
		}
		if o.epoch <= highest.epoch {
			t.Errorf("epochs go back: %+v was answered before this was asked: %+v", highest, o)
		}
	}
}

// What isn't linearizable is found.
func TestModel(t *testing.T) {
	a, b := uuid.New(), uuid.New()
	at := func(call, end time.Duration, o operation) operation {
		o.broker, o.call, o.end, o.answered = 1000, call, end, end > 0
		return o
	}
	register := func(incarnation uuid.UUID, epoch int64, call, end time.Duration) operation {
		return at(call, end, operation{incarnation: incarnation, epoch: epoch})
	}
	unregister := func(call, end time.Duration) operation { return at(call, end, operation{}) }
	for _, test := range []struct {
		reason  string
		history []operation
		want    porcupine.CheckResult
	}{
		{"one after the other", []operation{register(a, 5, 1, 2), register(a, 5, 3, 4), register(b, 9, 5, 6), unregister(7, 8)}, porcupine.Ok},
		{"two at once", []operation{register(a, 9, 1, 4), register(b, 5, 2, 3), register(a, 9, 5, 6)}, porcupine.Ok},
		{"an acknowledged registration is lost", []operation{register(a, 5, 1, 2), register(a, 7, 3, 4)}, porcupine.Illegal},
		{"an acknowledged registration is lost, and then there is none", []operation{register(a, 5, 1, 2), unregister(3, 4), unregister(5, 6)}, porcupine.Illegal},
		{"an epoch comes twice", []operation{register(a, 5, 1, 2), register(b, 5, 3, 4)}, porcupine.Illegal},
		{"an old epoch comes back", []operation{register(a, 5, 1, 2), register(b, 7, 3, 4), register(a, 5, 5, 6)}, porcupine.Illegal},
		{"an unregistration is lost", []operation{register(a, 5, 1, 2), unregister(3, 4), register(a, 5, 5, 6)}, porcupine.Illegal},
		{"no answer, and done", []operation{register(a, 5, 1, 2), register(b, 0, 3, 0), register(b, 8, 4, 5)}, porcupine.Ok},
		{"no answer, and not done", []operation{register(a, 5, 1, 2), register(b, 0, 3, 0), register(a, 5, 4, 5)}, porcupine.Ok},
		{"no answer, and done late", []operation{register(a, 5, 1, 2), unregister(3, 0), register(a, 5, 4, 5), register(a, 9, 6, 7)}, porcupine.Ok},
		{"no answer, and done before it was asked", []operation{register(a, 5, 1, 2), register(a, 7, 3, 4), unregister(5, 0)}, porcupine.Illegal},
	} {
		var all []porcupine.Operation
		for _, o := range test.history {
			p := porcupine.Operation{Input: o, Call: int64(o.call), Return: int64(o.end)}
			if !o.answered {
				p.Return = math.MaxInt64
			}
			all = append(all, p)
		}
		if got := porcupine.CheckOperationsTimeout(model, all, time.Minute); got != test.want {
			t.Errorf("%s: %s, want %s", test.reason, got, test.want)
		}
	}
}
