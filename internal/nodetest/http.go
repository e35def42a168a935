package nodetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Get asks until the answer is as ok likes it.
func Get(url string, ok func(code int, body []byte) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	last := errors.New("no answer")
	for {
		r, err := client.Get(url)
		if err == nil {
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err == nil && ok(r.StatusCode, body) {
				return nil
			}
			last = fmt.Errorf("%s: %s, %v\n%s", url, r.Status, err, body)
		}
		if Pause(ctx) != nil {
			return last
		}
	}
}
