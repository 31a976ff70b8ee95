// expect: sandbox_timeout
while (true) console.log("x".repeat(1000))
