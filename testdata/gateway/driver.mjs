// Drives an MCP server over stdio with the TypeScript SDK and prints, as one JSON
// object, all that a client sees of it: tools, results, progress, what the server
// asks and tells, resources, prompts, completions and errors.
//
// node driver.mjs '{"command": …, "args": […], "cwd": …, "capabilities": true, "own": ["execute", …]}'
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const run = JSON.parse(process.argv[2]);
const seen = { told: [], asked: [] };
const capabilities = run.capabilities ? { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } } : {};
const client = new Client({ name: "differential", version: "1" }, { capabilities });
const waiting = [];

client.fallbackNotificationHandler = async (n) => {
  seen.told.push(n);
  for (const w of waiting.splice(0)) w();
};
let answer = "accept";
if (run.capabilities) {
  client.setRequestHandler(CreateMessageRequestSchema, async (r) => {
    seen.asked.push({ method: r.method, params: r.params });
    return { role: "assistant", model: "fixed", stopReason: "endTurn", content: { type: "text", text: "a fixed answer" } };
  });
  client.setRequestHandler(ElicitRequestSchema, async (r) => {
    seen.asked.push({ method: r.method, params: r.params });
    if (answer !== "accept" || r.params.mode === "url") return { action: answer };
    return { action: "accept", content: { name: "Ada", check: true, email: "ada@example.org", integer: 42, number: 3.5 } };
  });
  client.setRequestHandler(ListRootsRequestSchema, async () => {
    return { roots: [{ uri: "file:///a/root", name: "a root" }, { uri: "file:///another", name: "another" }] };
  });
}

const any = z.any();
async function ask(method, params, options) {
  try {
    return { result: await client.request({ method, params }, any, options) };
  } catch (e) {
    return { error: { code: e.code, message: e.message, data: e.data } };
  }
}
const call = (name, args, options) => ask("tools/call", { name, arguments: args }, options);

// until waits for a notification of a kind.
async function until(method, from = 0) {
  while (!seen.told.slice(from).some((n) => n.method === method)) await new Promise((go) => waiting.push(go));
}

async function pages(method, field) {
  const all = [];
  let cursor;
  do {
    const r = await ask(method, cursor ? { cursor } : {});
    if (r.error) return r;
    all.push(...r.result[field]);
    cursor = r.result.nextCursor;
  } while (cursor);
  return all;
}

const out = { seen };
await client.connect(new StdioClientTransport({ command: run.command, args: run.args, cwd: run.cwd, env: run.env, stderr: "inherit" }));
out.tools = await pages("tools/list", "tools");
out.level = await ask("logging/setLevel", { level: "debug" });

out.calls = {};
const plain = [
  ["echo", { message: "grüße \u2028 \"quoted\" 12345678901234567890" }],
  ["echo", {}],
  ["get-annotated-message", { messageType: "success", includeImage: true }],
  ["get-annotated-message", { messageType: "error", includeImage: false }],
  ["get-resource-links", { count: 3 }],
  ["get-resource-reference", { resourceType: "Text", resourceId: 1 }],
  ["get-structured-content", { location: "New York" }],
  ["get-structured-content", { location: 5 }],
  ["get-sum", { a: 1.5, b: 2 }],
  ["get-sum", { a: "one", b: 2 }],
  ["get-tiny-image", {}],
  ["gzip-file-as-resource", { name: "a.gz", data: "data:text/plain;base64,aGVsbG8=", outputType: "resource" }],
  ["no-such-tool", {}],
];
for (const [i, [name, args]] of plain.entries()) out.calls[`${i} ${name}`] = await call(name, args);

out.progress = [];
out.calls.long = await call("trigger-long-running-operation", { duration: 0.2, steps: 4 }, {
  onprogress: (p) => out.progress.push(p), resetTimeoutOnProgress: true,
});

if (run.capabilities) {
  out.calls.roots = await call("get-roots-list", {});
  out.calls.sampling = await call("trigger-sampling-request", { prompt: "say something", maxTokens: 20 });
  for (answer of ["accept", "decline", "cancel"]) {
    out.calls[`elicitation ${answer}`] = await call("trigger-elicitation-request", {});
    out.calls[`url ${answer}`] = await call("trigger-url-elicitation", { url: "https://example.org/" + answer, message: "open", elicitationId: "e-" + answer });
  }
  out.calls["url as error"] = await call("trigger-url-elicitation", { url: "https://example.org/error", elicitationId: "e-error", errorPath: true });
  out.calls.task = await call("simulate-research-query", { topic: "anything" });
}

const before = seen.told.length;
out.calls.logging = await call("toggle-simulated-logging", {});
await until("notifications/message", before);
out.calls["logging off"] = await call("toggle-simulated-logging", {});

out.resources = await pages("resources/list", "resources");
out.templates = await pages("resources/templates/list", "resourceTemplates");
out.read = {};
const listed = Array.isArray(out.resources) ? out.resources.filter((r) => !r.uri.startsWith("pml:")) : [];
for (const r of listed.slice(0, 3)) out.read[r.uri] = await ask("resources/read", { uri: r.uri });
for (const uri of ["demo://resource/dynamic/text/7", "demo://resource/dynamic/blob/2", "demo://no/such"]) out.read[uri] = await ask("resources/read", { uri });

const uri = "demo://resource/dynamic/text/1";
out.subscribed = await ask("resources/subscribe", { uri });
const updates = seen.told.length;
out.calls.updates = await call("toggle-subscriber-updates", {});
await until("notifications/resources/updated", updates);
out.updated = seen.told.slice(updates).find((n) => n.method === "notifications/resources/updated");
out.calls["updates off"] = await call("toggle-subscriber-updates", {});
out.unsubscribed = await ask("resources/unsubscribe", { uri });

out.prompts = await pages("prompts/list", "prompts");
out.prompt = {
  simple: await ask("prompts/get", { name: "simple-prompt" }),
  args: await ask("prompts/get", { name: "args-prompt", arguments: { city: "Paris", state: "Texas" } }),
  missing: await ask("prompts/get", { name: "args-prompt", arguments: {} }),
  unknown: await ask("prompts/get", { name: "no-such-prompt" }),
};
out.completions = {
  prompt: await ask("completion/complete", { ref: { type: "ref/prompt", name: "completable-prompt" }, argument: { name: "department", value: "E" } }),
  template: await ask("completion/complete", { ref: { type: "ref/resource", uri: "demo://resource/dynamic/text/{resourceId}" }, argument: { name: "resourceId", value: "1" } }),
};
out.ping = await ask("ping", {});
await client.close();
console.log(JSON.stringify(out));
