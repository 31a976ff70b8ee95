// expect: sandbox_timeout
await { then() { while (true) {} } }
