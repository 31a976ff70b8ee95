// constructs: console between calls
console.log("start");
const r = await mcp.rec.echo({ value: "x" });
console.warn("got", r.value, 3);
console.error("end");
return r.value;
