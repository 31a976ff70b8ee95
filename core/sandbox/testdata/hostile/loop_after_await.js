// expect: sandbox_timeout
await null; while (true) {}
