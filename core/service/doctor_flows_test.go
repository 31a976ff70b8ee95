package service_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/api"
)

// An enabled flow refuses calls as long as pml runs none: doctor says which.
func TestDoctor_Flows(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.MkdirAll(filepath.Join(m.ws, ".pml", "flows"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.write(".pml/flows/guard.json", `{"id":"guard","enabled":true}`)
	m.write(".pml/flows/off.json", `{"id":"off","enabled":false}`)
	c := m.client()
	list, err := c.Doctor(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(x api.Check) bool { return x.Name == "flows" })
	if i < 0 || list[i].Status != "warn" || !strings.Contains(list[i].Detail, "guard.json") || strings.Contains(list[i].Detail, "off.json") {
		t.Errorf("%+v", list)
	}
}
