package sandbox

import (
	"bytes"
	"errors"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
	"modernc.org/quickjs"
)

// engine reaches below the quickjs wrapper for three things that it does not
// offer: the tracker of unhandled rejections, without which a failure that
// nobody awaits would be lost; file names, which tell our own stack frames from
// the script's; and an interrupt that asks for more than the time of day.
type engine struct {
	tls     *libc.TLS
	ctx, rt uintptr
	track   lib.TJSValue
	here    lib.TJSValue // a function that returns the stack
	argv    uintptr      // of the call of track, in the engine's memory
	// onReject is kept here because the engine holds its address only.
	onReject func(*libc.TLS, uintptr, lib.TJSValue, lib.TJSValue, int32, uintptr)
	onPoll   func(*libc.TLS, uintptr, uintptr) int32
}

// newEngine finds the engine of a VM by the names of the wrapper's fields. A
// version of the wrapper that renames them is an error here, and so fails the
// first test, rather than something that goes wrong later.
func newEngine(vm *quickjs.VM) (*engine, error) {
	v := reflect.ValueOf(vm).Elem()
	ctx, run := v.FieldByName("cContext"), v.FieldByName("runtime")
	if !ctx.IsValid() || ctx.Kind() != reflect.Uintptr || run.Kind() != reflect.Pointer {
		return nil, errors.New("the quickjs wrapper has changed: no context or runtime")
	}
	rt, tls := run.Elem().FieldByName("cRuntime"), run.Elem().FieldByName("tls")
	if !rt.IsValid() || rt.Kind() != reflect.Uintptr || tls.Kind() != reflect.Pointer {
		return nil, errors.New("the quickjs wrapper has changed: no runtime handle")
	}
	return &engine{ctx: uintptr(ctx.Uint()), rt: uintptr(rt.Uint()), tls: (*libc.TLS)(tls.UnsafePointer())}, nil
}

// compile makes bytecode of our own source under a file name.
func (e *engine) compile(source, file string) ([]byte, error) {
	ps, err := libc.CString(source)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(e.tls, ps)
	pf, err := libc.CString(file)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(e.tls, pf)
	v := lib.XJS_Eval(e.tls, e.ctx, ps, libc.Tsize_t(len(source)), pf, lib.MJS_EVAL_TYPE_GLOBAL|lib.MJS_EVAL_FLAG_COMPILE_ONLY)
	if lib.XJS_HasException(e.tls, e.ctx) != 0 {
		lib.XFreeValue(e.tls, e.ctx, lib.XJS_GetException(e.tls, e.ctx))
		return nil, errors.New("the sandbox's own JavaScript does not compile: " + file)
	}
	defer lib.XFreeValue(e.tls, e.ctx, v)
	return e.write(v)
}

// write is a compiled program as bytes that any VM of this process can run.
func (e *engine) write(program lib.TJSValue) ([]byte, error) {
	size := int(unsafe.Sizeof(libc.Tsize_t(0)))
	length := e.tls.Alloc(size)
	defer e.tls.Free(size)
	p := lib.XJS_WriteObject(e.tls, e.ctx, length, program, lib.MJS_WRITE_OBJ_BYTECODE)
	if p == 0 {
		return nil, errors.New("no memory for the sandbox")
	}
	defer lib.Xjs_free(e.tls, e.ctx, p)
	return bytes.Clone(libc.GoBytes(p, int(*(*libc.Tsize_t)(unsafe.Add(nil, length))))), nil
}

// trackRejections has the engine call the function that is the property name
// of the global object with (promise, reason, handled).
func (e *engine) trackRejections(path ...string) error {
	v, err := e.find(path)
	if err != nil {
		return err
	}
	e.track = v
	if e.argv = libc.Xcalloc(e.tls, 3, libc.Tsize_t(unsafe.Sizeof(v))); e.argv == 0 {
		return errors.New("no memory for the sandbox")
	}
	e.onReject = e.rejection
	lib.XJS_SetHostPromiseRejectionTracker(e.tls, e.rt, codePointer(e.onReject), 0)
	return nil
}

// find is the value at a path of properties of the global object.
func (e *engine) find(path []string) (lib.TJSValue, error) {
	v := lib.XJS_GetGlobalObject(e.tls, e.ctx)
	for _, name := range path {
		p, err := libc.CString(name)
		if err != nil {
			return v, err
		}
		next := lib.XJS_GetPropertyStr(e.tls, e.ctx, v, p)
		libc.Xfree(e.tls, p)
		lib.XFreeValue(e.tls, e.ctx, v)
		v = next
	}
	return v, nil
}

// stack is where the engine is, as far as it is interrupted: empty when there is
// no room to say it. It leaves no exception behind.
func (e *engine) stack() string {
	v := lib.XJS_Call(e.tls, e.ctx, e.here, e.here, 0, 0)
	defer lib.XFreeValue(e.tls, e.ctx, v)
	if lib.XJS_HasException(e.tls, e.ctx) == 0 {
		if s := lib.XToCString(e.tls, e.ctx, v); s != 0 {
			defer lib.XJS_FreeCString(e.tls, e.ctx, s)
			return libc.GoString(s)
		}
	}
	lib.XFreeValue(e.tls, e.ctx, lib.XJS_GetException(e.tls, e.ctx))
	return ""
}

// rejection is called by the engine when a promise is rejected without a
// handler, and again when it gets one. It must leave no exception behind.
func (e *engine) rejection(tls *libc.TLS, ctx uintptr, promise, reason lib.TJSValue, handled int32, _ uintptr) {
	args := (*[3]lib.TJSValue)(unsafe.Add(nil, e.argv))
	*args = [3]lib.TJSValue{promise, reason, lib.XNewInt32(tls, ctx, handled)}
	r := lib.XJS_Call(tls, ctx, e.track, e.track, 3, e.argv)
	if lib.XJS_HasException(tls, ctx) != 0 {
		lib.XFreeValue(tls, ctx, lib.XJS_GetException(tls, ctx))
		return
	}
	lib.XFreeValue(tls, ctx, r)
}

// onInterrupt has the engine ask now and then, while it runs, whether it must
// stop. The wrapper's own way is replaced by that: it knows a deadline only.
func (e *engine) onInterrupt(mustStop func() bool) {
	e.onPoll = func(*libc.TLS, uintptr, uintptr) int32 {
		if mustStop() {
			return 1
		}
		return 0
	}
	lib.XJS_SetInterruptHandler(e.tls, e.rt, codePointer(e.onPoll), 0)
}

// close gives back what the engine holds, before the VM closes.
func (e *engine) close() {
	lib.XJS_SetHostPromiseRejectionTracker(e.tls, e.rt, 0, 0)
	lib.XJS_SetInterruptHandler(e.tls, e.rt, 0, 0)
	lib.XFreeValue(e.tls, e.ctx, e.track)
	lib.XFreeValue(e.tls, e.ctx, e.here)
	libc.Xfree(e.tls, e.argv)
}

// codePointer is how the translated C code holds a function.
func codePointer(f any) uintptr {
	type iface [2]uintptr
	return (*iface)(unsafe.Pointer(&f))[1]
}
