// expect: sandbox_memory script_error
return "x".repeat(2 ** 29).length + "y".repeat(2 ** 29).length
