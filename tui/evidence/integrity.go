package evidence

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/asked"
)

// noFails is what a no does to the call that asks.
const noFails = "fails the call, and with it its run unless the run handles that"

func (p *proof) integrity() {
	claims := p.value("kind") == `"readonly"`
	if words := asked.Changed(strings.Trim(p.value("kind"), `"`), strings.Trim(p.value("old_hash"), `"`)); words != "" {
		p.take("kind")
		p.text("what", words)
	}
	p.show("what", "kind")
	p.text("a no", noFails)
	if claims {
		server, _ := strconv.Unquote(p.value("fqdn_base"))
		p.text("a yes", "they run without a question")
		name := strings.ReplaceAll(core.Visible(server, 100, false), "'", `'\''`) // by whoever wrote the files of the folder: for a shell
		p.text("instead", "pml permissions ask '"+name+":*' has each of its calls ask you")
		p.take("read_only") // the same names stand among the lines below
	}
	p.show("old hash", "old_hash")
	p.show("new hash", "new_hash")
	p.show("file hash", "file_hash")
	var changed []string
	if !p.into("changed", &changed) {
		return
	}
	p.blank()
	if claims {
		p.head("its tools that say that they only read")
		p.differences(changed)
		return
	}
	added, removed := 0, 0
	for _, l := range changed {
		switch {
		case strings.HasPrefix(l, "+"):
			added++
		case strings.HasPrefix(l, "-"):
			removed++
		}
	}
	p.head(fmt.Sprintf("what changed  +%d -%d", added, removed))
	if len(changed) == 0 {
		p.text("", "pml cannot say what: only the hashes differ")
	}
	p.differences(changed)
}

// differences shows lines of a difference.
func (p *proof) differences(lines []string) {
	for _, l := range lines {
		p.add("", l, diffStyle(l))
	}
}
