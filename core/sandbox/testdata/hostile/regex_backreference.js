// expect: sandbox_timeout
return /(x+x+)+y\1/.test("x".repeat(60))
