package service

import (
	"context"
	"testing"
	"time"
)

// TestRest: news cut a rest short, and so does the end of the context.
func TestRest(t *testing.T) {
	t.Parallel()
	news := make(chan struct{}, 1)
	news <- struct{}{}
	if !rest(t.Context(), time.Hour, news) {
		t.Error("news ended it")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rest(ctx, time.Hour, news) {
		t.Error("it went on after the context had ended")
	}
}
