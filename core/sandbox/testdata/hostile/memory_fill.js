// expect: sandbox_memory script_error
return new Array(2 ** 31).fill(1).length
