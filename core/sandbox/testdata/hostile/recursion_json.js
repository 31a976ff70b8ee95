// expect: script_error sandbox_memory
return JSON.parse("[".repeat(1e5) + "]".repeat(1e5)) && 1
