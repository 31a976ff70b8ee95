// expect: sandbox_memory script_error
let s = "x"; while (true) s += s
