// expect: ok script_error
class P extends Promise { static get [Symbol.species]() { throw 1 } } Promise.prototype.constructor = P; return 1
