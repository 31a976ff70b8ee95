// expect: script_error
const o = { toJSON() { return JSON.stringify(o) } }; return o
