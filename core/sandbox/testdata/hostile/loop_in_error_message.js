// expect: sandbox_timeout
throw Object.defineProperty(new Error("x"), "message", { get() { while (true) {} } })
