// expect: sandbox_timeout
(function f() { queueMicrotask(f) })(); return 1
