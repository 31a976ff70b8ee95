// expect: sandbox_timeout sandbox_memory
const f = () => Promise.resolve().then(f); await f()
