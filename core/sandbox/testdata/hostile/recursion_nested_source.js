// expect: script_error syntax_error sandbox_memory ok
return (0, eval)("(".repeat(5e4) + "1" + ")".repeat(5e4))
