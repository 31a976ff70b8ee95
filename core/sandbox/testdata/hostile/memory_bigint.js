// expect: sandbox_memory sandbox_timeout script_error
let n = 2n; while (true) n = n * n
