// expect: sandbox_memory sandbox_timeout ok
const a = []; try { while (true) a.push(new Array(1000).fill(1)) } catch (e) { return "caught" }
