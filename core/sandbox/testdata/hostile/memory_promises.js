// expect: sandbox_memory sandbox_timeout
const l = []; while (true) l.push(new Promise(() => {}))
