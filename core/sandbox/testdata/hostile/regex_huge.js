// expect: script_error sandbox_memory ok
return new RegExp("(".repeat(20000) + ")".repeat(20000)).test("a")
