// expect: script_error
throw { toString() { throw 1 }, get name() { throw 2 } }
