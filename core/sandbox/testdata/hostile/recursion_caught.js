// expect: ok sandbox_timeout
function f() { try { f() } catch { return 1 } } return f() ?? null
