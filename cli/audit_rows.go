package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/cli/app"
	"github.com/casys-ai/pml/cli/layout"
	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/approval"
)

// auditRows are rows of the audit log on their way to a table.
type auditRows struct {
	a       *app.App
	several bool               // they are of several workspaces
	layers  map[core.ID]string // by the approval that asked, as far as it is kept: layer 2 of 3
}

func newAuditRows(ctx context.Context, a *app.App, b app.Backend, rows []core.AuditRow) auditRows {
	v := auditRows{a: a, layers: map[core.ID]string{}}
	if !a.Human() {
		return v
	}
	for _, r := range rows {
		v.several = v.several || r.Workspace != rows[0].Workspace
		if _, known := v.layers[r.ApprovalID]; known || r.Type != core.ApproveLayer {
			continue
		}
		p, err := b.Approval(ctx, r.ApprovalID)
		if err != nil { // it is not kept any more
			p = core.Approval{}
		}
		v.layers[r.ApprovalID] = layerOf(p)
	}
	return v
}

// layerOf is the layer that an approval asks about, by its number from 1 on; empty where the
// approval does not say.
func layerOf(p core.Approval) string {
	var c struct {
		Index *int `json:"layer_index"`
		Total int  `json:"total_layers"`
	}
	if len(p.Context) == 0 || json.Unmarshal(p.Context, &c) != nil || c.Index == nil {
		return ""
	}
	return fmt.Sprintf("layer %d of %d", *c.Index+1, max(c.Total, *c.Index+1))
}

// auditColumns: one line for each row, in which what was decided, by whom and about what
// is never cut at 80 columns; why takes the place that is left.
func auditColumns(v auditRows, args bool) []app.Column[core.AuditRow] {
	when := func(r core.AuditRow) string { return layout.Stamp(r.At) }
	name := func(r core.AuditRow) string { return r.RunName }
	if v.a.StdoutTTY {
		when = func(r core.AuditRow) string { return layout.When(v.a.Now(), r.At) }
		name = func(r core.AuditRow) string { return cmp.Or(core.OneLine(r.RunName, auditName), r.RunID.Short()) }
	}
	outcome := func(r core.AuditRow) layout.Style { return layout.StyleOf(core.ShownOutcome(r)) }
	cols := []app.Column[core.AuditRow]{
		{Title: "WHAT", Get: v.what},
		{Title: "OUTCOME", Get: outcomeText, Style: outcome},
		{Title: "BY", Get: func(r core.AuditRow) string { return r.By.Label() }},
		{Title: "AT", Get: when, Style: app.Always[core.AuditRow](layout.Dim)},
		{Title: "NAME", Drop: 1, Get: name},
		{Title: "APPROVAL", Drop: 2, Get: func(r core.AuditRow) string { return r.ApprovalID.Short() }, Style: app.Always[core.AuditRow](layout.Ident)},
		{Title: "TYPE", Drop: 3, Get: func(r core.AuditRow) string { return string(r.Type) }},
		{Title: "RUN", Drop: 4, Get: func(r core.AuditRow) string { return r.RunID.Short() }},
		{Title: "SEQ", Drop: 5, Get: func(r core.AuditRow) string { return strconv.FormatInt(r.Seq, 10) }},
		{Title: "SIDE", Drop: 6, Get: func(r core.AuditRow) string { return string(r.Side) }},
		{Title: "WORKSPACE", Wide: true, Get: func(r core.AuditRow) string { return r.Workspace }},
		{Title: "ASKED", Wide: true, Get: func(r core.AuditRow) string { return string(r.Asked) }},
		{Title: "DIGEST", Wide: true, Get: func(r core.AuditRow) string { return r.Digest }},
		{Title: "HASH", Wide: true, Get: func(r core.AuditRow) string { return r.Hash }},
	}
	if args {
		cols = append(cols, app.Column[core.AuditRow]{Title: "ARGUMENTS", Below: 1, Get: argumentsText})
	}
	return append(cols, app.Column[core.AuditRow]{Title: "REASON", Rest: true, Get: v.reason})
}

func argumentsText(r core.AuditRow) string {
	text := layout.Arguments(r.Arguments, 200)
	if len(r.Sent) > 0 {
		text += ", changed to " + layout.Arguments(r.Sent, 200)
	}
	return text
}

const (
	auditPath   = 16 // a path that is longer is its last name alone
	auditWords  = 30
	auditName   = 24 // of a run, on a terminal
	auditFolder = 16 // of a folder's name
)

// what is what a row is about, in a few words: a tool or server, a layer, a file that was
// changed, with its folder, a run, or how the reason begins where it is about none of them.
func (v auditRows) what(r core.AuditRow) string {
	kind := approval.TypeOf(r.Type)
	_, file, changed := core.ChangedFile(r)
	switch {
	case r.Type == core.ApproveLayer:
		return cmp.Or(v.layers[r.ApprovalID], kind.Words)
	case r.Tool != "" && v.a.StdoutTTY && r.Type != "" && !kind.PerCall:
		return r.Tool + " (" + kind.Words + v.in(r) + ")"
	case r.Tool != "":
		return r.Tool
	case changed:
		return "change of " + path.Join(core.OneLine(filepath.Base(filepath.Dir(file)), auditFolder), core.OneLine(filepath.Base(file), auditFolder))
	case r.RunID != "":
		return "run " + cmp.Or(core.OneLine(r.RunName, auditName), r.RunID.Short())
	}
	words := strings.Fields(r.Reason)
	for i, w := range words {
		if _, name := path.Split(w); len(w) > auditPath && name != "" && name != w {
			words[i] = "…/" + name
		}
	}
	return core.OneLine(strings.Join(words, " "), auditWords)
}

// in is the workspace of a row that no run has, where others in the list are of another.
func (v auditRows) in(r core.AuditRow) string {
	if !v.several || r.RunID != "" || r.Workspace == "" {
		return ""
	}
	return " in " + core.OneLine(filepath.Base(r.Workspace), auditFolder)
}

// reason is why, and what else was decided; of a change of a file, on a terminal,
// what was changed.
func (v auditRows) reason(r core.AuditRow) string {
	reason := core.ShownReason(r)
	if about, _, ok := core.ChangedFile(r); ok && v.a.StdoutTTY {
		reason = about
	}
	if v.what(r) == reason {
		reason = ""
	}
	return reason
}

// outcomeText is the outcome of a row, and how many attempts it stands for.
func outcomeText(r core.AuditRow) string {
	if r.Count > 1 {
		return fmt.Sprintf("%s ×%d", core.ShownOutcome(r), r.Count)
	}
	return core.ShownOutcome(r)
}
