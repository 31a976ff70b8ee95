package pml_test

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestClient_GoSDK has the official Go SDK as a client of pml.
func TestClient_GoSDK(t *testing.T) {
	t.Parallel()
	if c := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil); c == nil {
		t.Fatal("no client")
	}
}
