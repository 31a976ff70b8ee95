// expect: sandbox_timeout
function* g() { while (true) yield 1 } for (const x of g()) {}
