// constructs: semaphore of two made from promises
// order: free
let free = 2;
const queue = [];
const take = () => free > 0 ? (free--, Promise.resolve()) : new Promise((ok) => queue.push(ok));
const give = () => { const next = queue.shift(); if (next) next(); else free++; };
const job = async (n) => { await take(); try { return (await mcp.rec.echo({ value: n })).value; } finally { give(); } };
return await Promise.all([1, 2, 3, 4, 5].map(job));
