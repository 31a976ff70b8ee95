// expect: sandbox_memory script_error
const l = []; while (true) l.push(new Uint8Array(1 << 20).fill(1))
