// Runs scripts of the corpus under plain node, against a recorder in HTTP
// mode, with the globals and the meaning that pml gives them. It is written
// independently of pml's sandbox: what both agree on is the truth.
//
//   node run.mjs SCRIPT.js URL               one script; prints its outcome
//   node run.mjs --batch JOBS.json URL       many, one after the other; prints a line each
//
// Scripts are JavaScript already (types are stripped by the caller). A batch is
// [{name, js, log, input?, jitter?}]; jitter is the most milliseconds by which
// an answer is held back, to find out which orders are the script's own.

import { readFileSync } from "node:fs";

const AsyncFunction = (async () => {}).constructor;
const realSetTimeout = globalThis.setTimeout;
const realClearTimeout = globalThis.clearTimeout;
const tick = () => new Promise((done) => setImmediate(done));

class ToolError extends Error {
  constructor(message, tool) {
    super(message);
    this.name = "ToolError";
    this.code = "tool_failed";
    this.tool = tool;
  }
}

// normalise turns an MCP result into the value that the script sees.
function normalise(result, tool) {
  const content = result.content ?? [];
  if (result.isError) {
    throw new ToolError(content.map((c) => c.text ?? "").join("\n"), tool);
  }
  if (result.structuredContent !== undefined) return result.structuredContent;
  if (content.length === 1 && content[0].type === "text") {
    try {
      return JSON.parse(content[0].text);
    } catch {
      return content[0].text;
    }
  }
  return content;
}

// A Run is one script's world: its globals, and the trace of what it did.
class Run {
  constructor(job, url) {
    Object.assign(this, { job, url, pending: 0, step: 0, calls: [], logs: [] });
  }

  async call(server, tool, args) {
    const sent = args === undefined ? {} : JSON.parse(JSON.stringify(args));
    const trace = { server, tool, args: sent, start: ++this.step };
    this.calls.push(trace);
    this.pending++;
    try {
      const reply = await fetch(`${this.url}/call`, {
        method: "POST",
        body: JSON.stringify({ server, tool, args: sent, log: this.job.log }),
      });
      const body = await reply.json();
      if (this.job.jitter) {
        await new Promise((done) => realSetTimeout(done, Math.random() * this.job.jitter));
      }
      if (body.error !== undefined) throw new ToolError(body.error, `${server}:${tool}`);
      return normalise(body.result, `${server}:${tool}`);
    } finally {
      trace.end = ++this.step;
      this.pending--;
    }
  }

  mcp() {
    const level = (make) =>
      new Proxy(Object.create(null), {
        get: (_, key) =>
          typeof key === "symbol" || key === "then" || key === "toJSON" ? undefined : make(key),
      });
    return level((server) => level((tool) => (args) => this.call(server, tool, args)));
  }

  console() {
    const write = (name) => (...parts) => this.logs.push(`${name}: ${parts.map(String).join(" ")}`);
    return Object.fromEntries(["log", "info", "warn", "error", "debug"].map((n) => [n, write(n)]));
  }

  timers() {
    const set = (f, ms, ...args) => {
      this.pending++;
      const id = realSetTimeout(() => {
        this.pending--;
        open.delete(id);
        f(...args);
      }, ms);
      open.add(id);
      return id;
    };
    const open = new Set();
    const clear = (id) => {
      if (open.delete(id)) this.pending--;
      realClearTimeout(id);
    };
    return [set, clear];
  }

  // run ends when the script has returned and all that it started has settled.
  async run() {
    const unhandled = new Map();
    const seen = (reason, promise) => unhandled.set(promise, reason);
    const late = (promise) => unhandled.delete(promise);
    process.on("unhandledRejection", seen);
    process.on("rejectionHandled", late);
    const out = {};
    try {
      const names = ["mcp", "input", "console", "setTimeout", "clearTimeout"];
      const body = new AsyncFunction(...names, `"use strict";\n${this.job.js}`);
      const result = await body(this.mcp(), this.job.input ?? null, this.console(), ...this.timers());
      out.result = JSON.parse(JSON.stringify(result) ?? "null");
    } catch (e) {
      out.error = describe(e);
    }
    do await tick(); while (this.pending > 0);
    await tick();
    process.off("unhandledRejection", seen);
    process.off("rejectionHandled", late);
    if (!out.error && unhandled.size > 0) {
      delete out.result;
      out.error = { ...describe([...unhandled.values()][0]), unhandled: true };
    }
    return { name: this.job.name, ...out, calls: this.calls, logs: this.logs };
  }
}

function describe(e) {
  if (!(e instanceof Error)) return { name: "", message: String(e) };
  const { name, message, code, tool } = e;
  return { name, message, code, tool };
}

const argv = process.argv.slice(2);
const batch = argv[0] === "--batch";
const [path, url] = batch ? argv.slice(1) : argv;
if (!path || !url) {
  console.error("usage: node run.mjs SCRIPT.js URL | node run.mjs --batch JOBS.json URL");
  process.exit(2);
}
const text = readFileSync(path, "utf8");
for (const job of batch ? JSON.parse(text) : [{ name: path, js: text }]) {
  console.log(JSON.stringify(await new Run(job, url).run()));
}
