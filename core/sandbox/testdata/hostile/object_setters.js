// expect: ok script_error
for (const k of ["get", "set", "value", "writable", "enumerable", "configurable", "code", "tool", "timer", "name", "0", "1", "length"]) Object.defineProperty(Object.prototype, k, { get() { return 7 }, set() {}, configurable: true }); return 1
