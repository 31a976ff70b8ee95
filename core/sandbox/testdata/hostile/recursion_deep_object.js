// expect: script_error sandbox_memory
let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; return o
