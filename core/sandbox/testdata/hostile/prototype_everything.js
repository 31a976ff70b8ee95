// expect: ok script_error
for (const C of [Array, Object, Promise, Map, WeakMap, Set, Function, String, Number, RegExp, Error]) for (const k of Object.getOwnPropertyNames(C.prototype)) try { C.prototype[k] = () => { throw 1 } } catch {} return 1
