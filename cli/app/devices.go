package app

import (
	"context"
	"time"
)

// Devices are the browsers of this user that see the pages of a server.
type Devices interface {
	// Pair begins the pairing of a device: whoever opens the address in time, once, is it.
	Pair(ctx context.Context, name, url string) (Pairing, error)
	Devices(ctx context.Context) ([]Device, error)
	// RemoveDevice forgets a device at once, or takes back a pairing that has not ended.
	RemoveDevice(ctx context.Context, name string) error
}

// Pairing is an address that makes a device of the browser in which it is opened.
type Pairing struct {
	Name  string    `json:"name"`
	URL   string    `json:"url"`
	Until time.Time `json:"until"`
	// Here is set where only this machine can open the address.
	Here bool `json:"this_machine_only,omitempty"`
}

// Device is a browser that was paired.
type Device struct {
	Name     string    `json:"name"`
	PairedAt time.Time `json:"paired_at"`
	Until    time.Time `json:"until"`
}
