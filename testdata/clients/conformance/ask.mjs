// Asks the test at an address to do something, and waits until it has: the suite starts
// this as its client, and pml starts it as the browser. The last argument is the address
// that the suite or pml gives.
const [to] = process.argv.slice(2);
const body = JSON.stringify({ url: process.argv.at(-1), context: process.env.MCP_CONFORMANCE_CONTEXT ?? "" });
const answer = await fetch(to, { method: "POST", body });
process.exitCode = answer.ok ? 0 : 1;
