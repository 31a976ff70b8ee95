// expect: sandbox_memory script_error
return new Array(1e7).fill("xxxxxxxxxx").join("").length
