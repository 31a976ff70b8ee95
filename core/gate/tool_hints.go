package gate

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/env"
)

// actingWords are words in a tool's name that do not go with only reading.
var actingWords = []string{
	"delete", "remove", "rm", "drop", "truncate", "purge", "destroy", "wipe", "erase", "kill", "write", "overwrite",
	"send", "publish", "deploy", "exec", "execute", "shell", "eval", "transfer", "pay", "charge",
}

// changingWords are words in a tool's name that do not sound like only reading and
// may all the same: they are marked where somebody is asked.
var changingWords = []string{
	"add", "append", "apply", "approve", "archive", "assign", "book", "buy", "call", "cancel", "clear", "click", "close", "commit", "copy", "create",
	"disable", "download", "edit", "enable", "fill", "fork", "grant", "import", "insert", "install", "invite", "invoke", "launch", "make", "merge",
	"mkdir", "modify", "move", "mv", "order", "patch", "place", "post", "push", "put", "register", "rename", "reply", "replace", "reset", "restart",
	"restore", "revoke", "rollback", "run", "save", "schedule", "script", "set", "sign", "start", "stop", "store", "submit", "subscribe", "sync", "trigger",
	"type", "uninstall", "unsubscribe", "update", "upload", "upsert",
}

// deletingWords are words in a tool's name of one that deletes.
var deletingWords = []string{"delete", "remove", "rm", "rmdir", "unlink", "drop", "truncate", "purge", "destroy", "wipe", "erase", "kill"}

// hasWord reports whether a name has one of some words.
func hasWord(name string, words []string) bool {
	return slices.ContainsFunc(nameWords(name), func(word string) bool { return slices.Contains(words, word) })
}

// believed are a tool's hints as far as pml goes by them. They are the server's
// claims: one to only read is not taken from a tool whose name says otherwise,
// which then counts as destructive. No setting for tools that read lets it
// through, and no crash makes it run a second time.
func believed(tool core.Tool) core.Annotations {
	a := tool.Annotations
	if a.IsReadOnly() && hasWord(tool.Name, actingWords) {
		yes := true
		a.ReadOnly, a.Idempotent, a.Destructive = nil, nil, &yes
	}
	return a
}

// nameWords cuts a name such as deleteAll or db.drop_table into words in small
// letters.
func nameWords(name string) []string {
	var b strings.Builder
	var last rune
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(last) {
			b.WriteByte(' ')
		}
		last = r
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) })
}

// Annotations are those of a tool that pml believes, for a flow that is tried. Its server
// is started if it may be. Where it cannot be asked, a tool only reads of which a person
// has accepted that; of any other tool nothing is known, and unknown says why.
func (h *Host) Annotations(ctx context.Context, tool string) (a core.Annotations, unknown string, err error) {
	s, err := h.reader.fresh()
	if err != nil {
		return core.Annotations{}, "", err
	}
	server, name, _ := core.SplitTool(tool)
	o := h.offered(ctx, s, server)
	for _, t := range o.tools {
		if t.Name == name {
			return believed(t), "", nil
		}
	}
	if len(o.problems) == 0 {
		return core.Annotations{}, "its server has no such tool", nil
	}
	if accepted, err := h.acceptedReads(s, server); err == nil && slices.Contains(accepted, name) {
		return core.Annotations{ReadOnly: new(true)}, "", nil
	}
	return core.Annotations{}, o.problems[0].Message, nil
}

// acceptedReads are the tools of a server of which a person has accepted that they only
// read, as the lock files have it, trusted or not: nothing is allowed by it.
func (h *Host) acceptedReads(s *settings, server string) ([]string, error) {
	s, err := s.fromFile()
	if err != nil {
		return nil, err
	}
	if s.all.Servers[server].Origin == env.FromWorkspace {
		return s.lock.Servers[server].ReadOnly, nil
	}
	return s.homeLock.Servers[server].ReadOnly, nil
}

// OwnTools are the tools of a server as it lists them itself, before any flow about lists
// has seen them. The server is started if it may be.
func (h *Host) OwnTools(ctx context.Context, server string) ([]core.Tool, error) {
	s, err := h.reader.fresh()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(s.names(), server) {
		return nil, core.Errorf(core.CodeNotFound, "there is no server %s%s", core.Visible(server, 80, false), core.Suggest(server, s.names())).WithNext("pml", "servers", "ls")
	}
	if deny := s.refused(server+":*", server); deny != nil {
		return nil, deny
	}
	r, err := h.servers.of(server).prepare(ctx, s)
	switch {
	case err != nil:
		return nil, s.clean(err)
	case len(r.asks) > 0:
		return nil, core.Errorf(core.CodeNotTrusted, "the tools of %s are not known before somebody has decided: %s", core.Visible(server, 80, false), r.asks[0].Description)
	}
	var tools []core.Tool
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		tools = append(tools, s.redact.Tool(r.tools[name]))
	}
	return tools, nil
}

// Definition is the definition of a tool that is called here, as its server lists it; ok is
// false where it is not known, as before a decision about its server. The server is started
// if it may be.
func Definition(ctx context.Context, h *Host, tool string) (t core.Tool, ok bool) {
	s, err := h.reader.fresh()
	if err != nil {
		return t, false
	}
	server, name, _ := core.SplitTool(tool)
	if h.remote.makes(s, tool, server) {
		return t, false
	}
	tools, err := h.OwnTools(ctx, server)
	if err != nil {
		return t, false
	}
	i := slices.IndexFunc(tools, func(t core.Tool) bool { return t.Name == name })
	if i < 0 {
		return t, false
	}
	return tools[i], true
}
