// expect: ok
console.log("x".repeat(5e6)); return 1
