package api

import (
	"context"
	"time"
)

// Notify is how people who are away are told of approvals that wait.
type Notify interface {
	// NotifyCarriers lists the carriers of approvals.notify; nothing is sent.
	NotifyCarriers(ctx context.Context) ([]NotifyCarrier, error)
	// TestNotify sends a test message by carriers, all without names, and says what each
	// answered. One that fails is no error of the call.
	TestNotify(ctx context.Context, names ...string) ([]NotifyTest, error)
}

// The states of a carrier.
const (
	NotifyReady   = "ready"   // it can be used; whether it takes messages, a test says
	NotifyFailing = "failing" // it did not take the last message
	NotifyInvalid = "invalid" // Error says why it cannot be used
)

// NotifyCarrier is a configured carrier, and how it has fared on this machine.
type NotifyCarrier struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	State string `json:"state"`
	// Missing are variables without a value, in the environment and in .env of the home.
	Missing []string   `json:"missing,omitempty"`
	Error   string     `json:"error,omitempty"`
	Sent    *time.Time `json:"sent_at,omitempty"`       // when it last took a message
	Failed  int        `json:"failed,omitempty"`        // tries in a row
	Since   *time.Time `json:"failing_since,omitempty"` // of these
	Lost    int        `json:"lost,omitempty"`          // messages given up since it last took one
}

// NotifyTest is what came of a test message.
type NotifyTest struct {
	Name   string  `json:"name"`
	Type   string  `json:"type"`
	OK     bool    `json:"ok"`
	Error  string  `json:"error,omitempty"`
	TimeMS float64 `json:"time_ms"`
}
