// expect: ok script_error
for (const k of Object.getOwnPropertyNames(globalThis)) { const v = globalThis[k]; if (v && v.prototype) Object.freeze(v.prototype); if (v && k !== "mcp") Object.freeze(v) } Object.freeze(Object.prototype); return 1
