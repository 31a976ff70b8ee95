// expect: sandbox_timeout ok
return /(?<=^(a+)+)b/.test("a".repeat(40) + "cb")
