// expect: sandbox_timeout
async function* g() { while (true) yield 1 } for await (const x of g()) {}
