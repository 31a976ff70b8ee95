// expect: sandbox_memory
const a = []; while (true) a.push(new Array(1000).fill(a.length))
