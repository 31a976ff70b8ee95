// expect: sandbox_memory sandbox_timeout
const f = () => { Promise.resolve().then(f); Promise.resolve().then(f) }; f(); await new Promise(() => {})
