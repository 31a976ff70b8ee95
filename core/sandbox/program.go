package sandbox

import (
	_ "embed"
	"sync/atomic"

	"modernc.org/quickjs"
)

//go:embed boot.js
var bootSource string

//go:embed web.js
var webSource string

//go:embed table.js
var tableSource string

// The JavaScript of our own. By their file names stack frames are told apart
// from the script's.
var (
	bootProgram = program{file: "pml:boot", source: bootSource}
	webProgram  = program{file: "pml:web", source: "globalThis.__pml_made=" + webSource}
	tables      = program{file: "pml:table", source: "globalThis.__pml_made=" + tableSource}
)

// program is JavaScript of our own. Every VM runs it anew; it is parsed by the
// first one of a process only, which takes three times as long as all else that
// makes a VM.
type program struct {
	file, source string
	bytecode     atomic.Pointer[[]byte]
}

// run runs the program in a VM.
func (p *program) run(vm *quickjs.VM, e *engine) error {
	code := p.bytecode.Load()
	if code == nil {
		made, err := e.compile(p.source, p.file)
		if err != nil {
			return err
		}
		code = &made
		p.bytecode.Store(code)
	}
	_, err := vm.EvalBytecode(*code)
	return err
}
