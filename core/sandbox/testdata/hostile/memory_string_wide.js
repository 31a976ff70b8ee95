// expect: sandbox_memory script_error
let s = "\u{1f600}"; while (true) s = s + s + "é"
