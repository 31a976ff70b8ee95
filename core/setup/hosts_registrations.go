package setup

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/atomicfile"
	"github.com/casys-ai/pml/core/hosts"
)

// registration is what pml has put into the file of a host.
type registration struct {
	Host      string    `json:"host"`
	File      string    `json:"file"`
	Workspace string    `json:"workspace"`
	At        time.Time `json:"at"`
	// Created says that pml made the file, Dir is the folder if it made that too.
	Created bool   `json:"created,omitempty"`
	Dir     string `json:"dir,omitempty"`
	// Edit is what was changed, and Digest that of the entry that came.
	Edit   hosts.Edit `json:"edit"`
	Digest string     `json:"digest"`
	// Before is what pml had put there for another workspace, which this one has
	// replaced; undo brings it back.
	Before *registration `json:"before,omitempty"`
}

// maxBefore bounds how many workspaces are remembered behind one.
const maxBefore = 16

// besides is a registration and those before it, without those of a workspace
// and of the same workspace twice.
func (r *registration) besides(workspaces ...string) *registration {
	if len(workspaces) > maxBefore {
		return nil
	}
	for r != nil && slices.Contains(workspaces, r.Workspace) {
		r = r.Before
	}
	if r == nil {
		return nil
	}
	out := *r
	out.Before = r.Before.besides(append(slices.Clone(workspaces), r.Workspace)...)
	return &out
}

// registrations is what was put into files of hosts from this machine, one for
// each file.
type registrations struct {
	Version int            `json:"version"`
	List    []registration `json:"registrations"`
}

// registrationsVersion is the format that is written.
const registrationsVersion = 1

func (r registrations) of(t hosts.Target) *registration {
	for i := range r.List {
		if r.List[i].File == t.File {
			return &r.List[i]
		}
	}
	return nil
}

func (r registrations) without(t hosts.Target) registrations {
	r.List = slices.DeleteFunc(slices.Clone(r.List), func(one registration) bool { return one.File == t.File })
	return r
}

func (r registrations) with(one registration) registrations {
	r = r.without(hosts.Target{File: one.File})
	r.List = append(r.List, one)
	return r
}

// registered is the file with the registrations.
func (hs *Hosts) registered() string { return filepath.Join(hs.o.Home.Dir, "hosts.json") }

func (hs *Hosts) registrations() (registrations, error) {
	out := registrations{Version: registrationsVersion}
	raw, err := os.ReadFile(hs.registered())
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	switch {
	case err != nil:
		return out, core.Errorf(core.CodeStoreFailed, "cannot read what pml has added to hosts: %s: %w; correct or remove the file", hs.registered(), err)
	case out.Version > registrationsVersion:
		return out, core.Errorf(core.CodeStoreNewer, "%s was written by a newer pml; use that one", hs.registered())
	}
	return out, nil
}

// HostWorkspaces implements api.Hosts.
func (hs *Hosts) HostWorkspaces(context.Context) ([]string, error) {
	done, err := hs.registrations()
	out := []string{}
	for i := range done.List {
		for r := &done.List[i]; r != nil; r = r.Before {
			if !slices.Contains(out, r.Workspace) {
				out = append(out, r.Workspace)
			}
		}
	}
	slices.Sort(out)
	return out, err
}

// saveRegistrations keeps them for their owner alone: an entry that was replaced
// stands there whole.
func (hs *Hosts) saveRegistrations(r registrations) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = atomicfile.Write(hs.registered(), append(raw, '\n'), 0o600)
	}
	if err != nil {
		return core.Errorf(core.CodeStoreFailed, "cannot write %s: %w; free some space or make it writable", hs.registered(), err)
	}
	return nil
}
