// expect: sandbox_memory
const o = {}; for (let i = 0; ; i++) o["key" + i] = Symbol(i)
