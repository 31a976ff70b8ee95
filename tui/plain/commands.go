package plain

import (
	"context"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
)

const help = `commands about the current approval (or name another one: show 7f3a91c2, or show 2, by its place):
  show            read all of it
  1 or deny       deny; words after it are the reason
  2 or abort      deny and abort its run
  3 or approve    approve once
  remember run    approve, and the same for the rest of this run; or remember session,
                  or remember rule to write a rule into the configuration
  loop            approve the calls that the same line of the script makes, within
                  bounds that are read out; changes after it: loop max 10; team is ENG
  run-again       call in doubt: approve running it again
  skip-result     call in doubt: approve going on without it; JSON after it is its result
  scripts         allow the install scripts, or take that back
  4 or more       five more minutes
  5 or skip       the next one
  again ID        ask again for an approval that expired
  open            open the address to sign in
  all approve T   approve all of a type, after reading them out; or all deny T and a reason
commands about runs:
  list            what waits
  runs            the newest runs
  run ID          one run with its tasks
  retry ID        run what failed again
  continue ID     go on with a run that was interrupted
  abort-run ID    end a run
  replan ID FILE  add the tasks of a JSON file to a graph
  events on|off   tell every step, or only what ends and fails
  quit            leave; what waits goes on waiting`

// notUnderstood does not repeat what was typed: it may be a secret.
const notUnderstood = "not understood. Type help."

// command does what a line says and reports whether the person leaves.
func (d *dialogue) command(ctx context.Context, line string) (leave bool) {
	verb, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "":
	case "help", "?":
		d.say("%s", help)
	case "quit", "exit", "q":
		return true
	case "list":
		d.list()
	case "runs":
		d.runs()
	case "run":
		d.run(ctx, rest)
	case "events":
		d.status.loud = rest == "on"
		d.say("events: %s.", map[bool]string{true: "every step", false: "only what ends and fails"}[d.status.loud])
	case "retry", "continue", "abort-run":
		d.move(ctx, verb, rest)
	case "again":
		d.again(ctx, rest)
	case "all":
		d.together(ctx, rest)
	case "replan":
		d.replan(ctx, rest)
	default:
		d.about(ctx, verb, rest)
	}
	return false
}

// verbKind is what follows a verb about an approval, besides the approval
// itself, and whether it does something.
type verbKind struct {
	free bool // any text
	acts bool
}

var verbs = map[string]verbKind{
	"show": {}, "5": {}, "skip": {},
	"1": {free: true, acts: true}, "deny": {free: true, acts: true},
	"2": {free: true, acts: true}, "abort": {free: true, acts: true},
	"3": {acts: true}, "approve": {acts: true}, "remember": {free: true, acts: true},
	"loop":      {free: true, acts: true},
	"run-again": {acts: true}, "skip-result": {free: true, acts: true}, "scripts": {acts: true},
	"4": {acts: true}, "more": {acts: true}, "open": {acts: true},
}

// about does something with an approval: the current one, or the one that the
// first word names.
func (d *dialogue) about(ctx context.Context, verb, rest string) {
	kind, known := verbs[verb]
	if !known {
		d.say(notUnderstood)
		return
	}
	more, named, ok := d.named(verb, rest, kind)
	if !ok || !d.ready(kind, named) {
		return
	}
	switch verb {
	case "show":
		d.show(ctx)
	case "5", "skip":
		d.skip()
	case "4", "more":
		d.more(ctx)
	case "open":
		d.open(ctx)
	case "scripts":
		d.scripts()
	default:
		d.choose(ctx, verb, more)
	}
}

// ready reports whether a verb can be about the current approval.
func (d *dialogue) ready(kind verbKind, named bool) bool {
	switch {
	case !d.greeted:
		d.say(notRead)
	case d.current == "" && len(d.waiting()) > 0:
		d.say("no approval is asked about yet; wait for the next one, or name one.")
	case d.current == "":
		d.say("%s type help.", d.status.nothing(d.st))
	case kind.acts && d.stale && !named:
		d.say("the question has changed: now it is about approval %s, %s. Nothing was done; say it again if that is meant.", d.current.Short(), typeName(d.card.Approval().Type))
	default:
		d.stale = false
		return true
	}
	d.stale = false
	return false
}

// idDigits is how much of an id names it among other words.
const idDigits = 8

// named takes the approval that the first word after a verb names, where it
// names one; more is what follows. A reason may begin with any word: it names an
// approval only if it is as long as the ids that are shown.
func (d *dialogue) named(verb, rest string, kind verbKind) (more string, named, ok bool) {
	word, after, _ := strings.Cut(rest, " ")
	id := core.ID("")
	if len(word) >= idDigits || !kind.free && len(word) >= 4 {
		id = d.approval(word)
	}
	if n, err := strconv.Atoi(word); err == nil && verb == "show" && id == "" {
		if list := d.waiting(); n > 0 && n <= len(list) { // its place, as it was told; to read it decides nothing
			id = list[n-1].ID
		}
	}
	switch {
	case id != "":
		d.pick(id)
		return strings.TrimSpace(after), true, true
	case looksLikeID(word) && verb != "skip-result", word != "" && !kind.free:
		d.say("no approval begins with %s, or more than one does. Nothing was done.", core.Visible(word, 60, false))
		return "", false, false
	}
	return rest, false, true
}

// looksLikeID reports whether a word was meant as an id.
func looksLikeID(word string) bool {
	digits := strings.ReplaceAll(word, "-", "")
	return len(digits) >= idDigits && !strings.ContainsFunc(strings.ToLower(digits), func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}

// pick makes an approval the current one that a person has named. What is said
// of it is meant.
func (d *dialogue) pick(id core.ID) {
	if id != d.current {
		d.offer(id)
		return
	}
	if !d.offered.IsZero() && d.now().Sub(d.offered) < quietFor {
		d.take(id, d.now().Add(-quietFor))
	}
	d.stale = false
}

// approval finds the only approval that an id begins with.
func (d *dialogue) approval(prefix string) (found core.ID) {
	now := d.now()
	prefix = strings.ToLower(prefix)
	for _, list := range [][]core.Approval{d.st.Waiting(now), d.st.Resolved(now, 200)} {
		for _, a := range list {
			if strings.HasPrefix(string(a.ID), prefix) {
				if found != "" && found != a.ID {
					return ""
				}
				found = a.ID
			}
		}
	}
	return found
}

// workflow finds a run by the beginning of its id.
func (d *dialogue) workflow(prefix string) (core.Run, bool) {
	if !d.greeted {
		d.say(notRead)
		return core.Run{}, false
	}
	var found []core.ID
	for _, id := range d.st.Runs() {
		if len(prefix) >= 4 && strings.HasPrefix(string(id), strings.ToLower(prefix)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		d.say("no run begins with %s.", core.Visible(prefix, 60, false))
	case 1:
		return d.st.Run(found[0])
	default:
		d.say("%d runs begin with %s; say more of the id.", len(found), core.Visible(prefix, 60, false))
	}
	return core.Run{}, false
}
