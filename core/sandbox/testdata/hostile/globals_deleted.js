// expect: ok script_error
for (const k of Object.getOwnPropertyNames(globalThis)) try { delete globalThis[k] } catch {} return 1
