package core

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// A panic is a defect of pml, or of what it is built with. It ends what it
// happens in, as a failure that its caller gets, and nothing else: the
// process works for others. So every goroutine has an end for it.

// Recover ends a panic and tells then, which may be nil, of it. It is deferred,
// and does nothing where there is none. doing completes "went wrong while …";
// about are attributes of the log.
func Recover(log *slog.Logger, doing string, then func(err *Error), about ...any) {
	if v := recover(); v != nil {
		err := Panicked(log, doing, v, about...)
		if then != nil {
			then(err)
		}
	}
}

// Panicked logs what a panic has thrown, with the stack, and returns the error
// for it. What was thrown may hold anything, and so goes to the log only, whole: the
// log leaves values of keys out, and would not know a part of one.
func Panicked(log *slog.Logger, doing string, thrown any, about ...any) *Error {
	logPanic(log, append([]any{"while", doing, "panic", fmt.Sprint(thrown), "stack", string(debug.Stack())}, about...))
	return Errorf(CodeInternal, "something went wrong inside pml while %s: a defect of pml, its log says more", doing)
}

// logPanic survives a log that panics too.
func logPanic(log *slog.Logger, attributes []any) {
	defer func() { _ = recover() }()
	log.Error("a panic in pml", attributes...)
}
