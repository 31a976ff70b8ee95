// The world of a script: what it may use besides ECMAScript. It runs before
// the script and takes what it needs of the language into its own variables,
// so that nothing that a script changes later reaches it. It therefore avoids
// array methods, spread, for-of and everything else that looks things up on
// prototypes.
(function (G) {
"use strict";
const host = { call: G.__pml_call, sleep: G.__pml_sleep, cancel: G.__pml_cancel, log: G.__pml_log, done: G.__pml_done, fail: G.__pml_fail, lost: G.__pml_lost };
const cfg = { __proto__: null, resultBytes: 0, logBytes: 0 };
const { apply, construct, defineProperty, deleteProperty, ownKeys, getPrototypeOf } = Reflect;
const { freeze, create } = Object;
const { stringify, parse } = JSON;
const P = Promise, E = Error, TE = TypeError, RE = RangeError, IE = InternalError, S = String, N = Number;
const isArray = Array.isArray, isInteger = Number.isSafeInteger, fromCharCode = String.fromCharCode;
const floor = Math.floor, imul = Math.imul;
const fn = (f) => (self, a, b) => apply(f, self, [a, b]);
const charCodeAt = fn(S.prototype.charCodeAt), slice = fn(S.prototype.slice), indexOf = fn(S.prototype.indexOf);
const lower = fn(S.prototype.toLowerCase), isPrototypeOf = fn(Object.prototype.isPrototypeOf);
const M = Map, MP = Map.prototype, mget = fn(MP.get), mset = fn(MP.set), mdel = fn(MP.delete), mhas = fn(MP.has), meach = fn(MP.forEach);
const W = WeakMap, WP = WeakMap.prototype, wget = fn(WP.get), wset = fn(WP.set);
const SP = Set.prototype, sadd = fn(SP.add), seach = fn(SP.forEach);
const hide = (o, k, v) => defineProperty(o, k, { __proto__: null, value: v, writable: true, enumerable: false, configurable: true });
const fix = (o, k, v) => defineProperty(o, k, { __proto__: null, value: v, writable: false, enumerable: false, configurable: true });
const isObject = (v) => v !== null && (typeof v === "object" || typeof v === "function");

// Time is that of the last delivery.
let now = 0, after = 0;
const RealDate = Date, dateToString = fn(RealDate.prototype.toString), dateTime = fn(RealDate.prototype.getTime);
function VDate() {
  if (new.target === undefined) return dateToString(new RealDate(now));
  return construct(RealDate, arguments.length === 0 ? [now] : arguments, new.target);
}
fix(VDate, "name", "Date"); fix(VDate, "length", 7);
hide(VDate, "now", function () { return now; });
hide(VDate, "parse", RealDate.parse); hide(VDate, "UTC", RealDate.UTC);
defineProperty(VDate, "prototype", { __proto__: null, value: RealDate.prototype, writable: false });
hide(RealDate.prototype, "constructor", VDate);
hide(G, "Date", VDate);

// Randomness comes from the seed (sfc32).
const rnd = [0, 0, 0, 0];
function next32() {
  const t = (rnd[0] + rnd[1] | 0) + rnd[3] | 0;
  rnd[3] = rnd[3] + 1 | 0;
  rnd[0] = rnd[1] ^ rnd[1] >>> 9;
  rnd[1] = rnd[2] + (rnd[2] << 3) | 0;
  rnd[2] = (rnd[2] << 21 | rnd[2] >>> 11) + t | 0;
  return t >>> 0;
}
function seed(a, b, c, d) {
  rnd[0] = a | 0; rnd[1] = b | 0; rnd[2] = c | 0; rnd[3] = d | 0;
  for (let i = 0; i < 12; i++) next32();
}
hide(Math, "random", function random() { return ((next32() >>> 5) * 67108864 + (next32() >>> 6)) / 9007199254740992; });
const hex = "0123456789abcdef";
hide(G, "crypto", freeze({
  __proto__: null,
  randomUUID() {
    let s = "";
    for (let i = 0; i < 32; i++) {
      if (i === 8 || i === 12 || i === 16 || i === 20) s += "-";
      let d = next32() >>> 28;
      if (i === 12) d = 4; else if (i === 16) d = d & 3 | 8;
      s += hex[d];
    }
    return s;
  },
}));

// Errors of tools.
const notes = new W();  // what host-made errors carry, beyond a script's reach
class ToolError extends E {}
fix(ToolError.prototype, "name", "ToolError");
function stackHere() { return new E().stack; }
function hostError(kind, code, message) {
  const e = construct(kind, [message]);
  wset(notes, e, { __proto__: null, code });
  return e;
}

// Calls. Every started call waits in pending until its delivery.
const pending = new M();
let lastID = 0;
function encode(what, v) {
  const s = stringify(v, function (k, x) {
    switch (typeof x) {
    // Within a value JSON leaves these out, as it does everywhere in JavaScript.
    case "function": case "symbol":
      if (k === "") throw new TE(what + ": the value is a " + typeof x + ", which cannot be sent; pass data only");
      break;
    case "bigint": throw new TE(what + ": " + where(k) + " is a BigInt, which JSON cannot hold; use Number(x) or String(x)");
    }
    return x;
  });
  return s === undefined ? "null" : s;
}
const where = (k) => k === "" ? "the value" : '"' + k + '"';
function call(server, tool, args) {
  const name = server + ":" + tool, what = "arguments of " + name;
  let json;
  if (args === undefined) json = "{}";
  else try { json = encode(what, args); } catch (e) {
    if (isObject(e) && isPrototypeOf(TE.prototype, e) && indexOf(e.message, "circular") >= 0) throw new TE(what + ": the value refers to itself (circular reference), which JSON cannot hold");
    throw e;
  }
  if (json.length > cfg.resultBytes) throw hostError(RE, "result_too_large", what + " are " + json.length + " characters, more than the limit of " + cfg.resultBytes + " bytes; write the data to a file and pass its path");
  const id = ++lastID, stack = stackHere(), entry = { __proto__: null, name, stack, resolve: undefined, reject: undefined };
  const p = new P((resolve, reject) => { entry.resolve = resolve; entry.reject = reject; });
  mset(pending, id, entry);
  host.call(id, server, tool, json, stack, after);
  return p;
}
const readOnly = (what) => () => { throw new TE(what + " is read-only"); };
const traps = (get) => ({ __proto__: null, get, set: readOnly("mcp"), defineProperty: readOnly("mcp"), deleteProperty: readOnly("mcp"), setPrototypeOf: readOnly("mcp") });
const isPlain = (k) => typeof k === "string" && k !== "then" && k !== "toJSON";
const servers = create(null);
function serverOf(server) {
  const tools = create(null);
  return new Proxy(create(null), traps((_, tool) => {
    if (!isPlain(tool)) return undefined;
    return tools[tool] ??= freeze(fix2((args) => call(server, tool, args), tool));
  }));
}
const fix2 = (f, name) => { fix(f, "name", name); return f; };
hide(G, "mcp", new Proxy(create(null), traps((_, server) => isPlain(server) ? servers[server] ??= serverOf(server) : undefined)));

// Timers are calls that the engine journals.
hide(G, "setTimeout", function setTimeout(f, ms) {
  if (typeof f !== "function") throw new TE("setTimeout needs a function; code in a string is not run");
  let wait = N(ms);
  if (!(wait > 0)) wait = 0;
  if (wait > 2147483647) wait = 2147483647;
  const rest = [];
  for (let i = 2; i < arguments.length; i++) defineProperty(rest, i - 2, { __proto__: null, value: arguments[i], writable: true, enumerable: true, configurable: true });
  const id = ++lastID;
  mset(pending, id, { __proto__: null, timer: f, rest });
  host.sleep(id, floor(wait), stackHere(), after);
  return id;
});
hide(G, "clearTimeout", function clearTimeout(id) {
  const e = mget(pending, id);
  if (e === undefined || e.timer === undefined || e.cancelled) return;
  e.cancelled = true; e.timer = e.rest = null;
  host.cancel(id);
});
hide(G, "queueMicrotask", function queueMicrotask(f) {
  if (typeof f !== "function") throw new TE("queueMicrotask needs a function");
  (async () => { await undefined; f(); })();
});

// Rejections that nobody handles. The engine's tracker calls this.
const rejected = new M();
function track(promise, reason, handled) {
  if (handled) mdel(rejected, promise); else mset(rejected, promise, reason);
}

// Console.
let quiet = false;
function inspect(v, depth, seen) {
  switch (typeof v) {
  case "string": return depth === 0 ? v : stringify(v);
  case "bigint": return S(v) + "n";
  case "symbol": return S(v);
  case "function": return "[function" + (v.name ? " " + S(v.name) : "") + "]";
  case "object": break;
  default: return S(v);
  }
  if (v === null) return "null";
  if (mhas(seen, v)) return "[circular]";
  if (depth > 4) return isArray(v) ? "[array]" : "[object]";
  mset(seen, v, true);
  let out = "", n = 0;
  const add = (s) => { if (n++ < 100) out += (n > 1 ? ", " : "") + s; };
  const more = () => n > 100 ? ", … " + (n - 100) + " more" : "";
  if (isPrototypeOf(E.prototype, v)) out = S(v.name) + ": " + S(v.message);
  else if (isArray(v)) { for (let i = 0; i < v.length && n < 101; i++) add(inspect(v[i], depth + 1, seen)); n = v.length; out = "[" + out + more() + "]"; }
  else if (v instanceof M) { meach(v, (x, k) => { if (n < 101) add(inspect(k, depth + 1, seen) + " => " + inspect(x, depth + 1, seen)); else n++; }); out = "Map {" + out + more() + "}"; }
  else if (v instanceof Set) { seach(v, (x) => { if (n < 101) add(inspect(x, depth + 1, seen)); else n++; }); out = "Set {" + out + more() + "}"; }
  else if (v instanceof RealDate) out = S(stringify(v));
  else if (v instanceof RegExp || v instanceof P) out = v instanceof P ? "[promise]" : S(v);
  else {
    const keys = Object.keys(v);
    for (let i = 0; i < keys.length && n < 101; i++) add(keys[i] + ": " + inspect(v[keys[i]], depth + 1, seen));
    n = keys.length;
    out = "{" + out + more() + "}";
  }
  mdel(seen, v);
  return out;
}
function logger(level) {
  return function () {
    if (quiet) return;
    let s = "";
    for (let i = 0; i < arguments.length && s.length <= cfg.logBytes; i++) {
      let one;
      try { one = inspect(arguments[i], 0, new M()); } catch { one = "[not printable]"; }
      s += (i > 0 ? " " : "") + one;
    }
    if (s.length > cfg.logBytes) s = slice(s, 0, cfg.logBytes);
    quiet = host.log(level, s) === true;
  };
}
const log = logger("log"), none = function () {};
const cons = { debug: logger("debug"), info: logger("info"), log, warn: logger("warn"), error: logger("error"), dir: log, table: log, trace: logger("debug"), group: log,
  groupCollapsed: log, groupEnd: none, time: none, timeEnd: none, timeLog: none, count: none, countReset: none, clear: none };
cons.assert = function (ok) { if (!ok) { const e = cons.error; arguments[0] = "Assertion failed:"; apply(e, undefined, arguments); } };
hide(G, "console", cons);

// What a script threw, as strings.
const text = (f) => { try { const v = f(); return typeof v === "string" ? v : v === undefined ? "" : S(v); } catch { return ""; } };
function describe(report, e) {
  let isError = false;
  try { isError = isObject(e) && isPrototypeOf(E.prototype, e); } catch { /* a revoked proxy */ }
  if (isError) {
    const note = wget(notes, e);
    report(text(() => e.name), text(() => e.message), text(() => e.stack), note ? note.code : "", note && note.tool ? note.tool : "", isPrototypeOf(IE.prototype, e));
    return;
  }
  let s;
  try { s = inspect(e, 0, new M()); } catch { s = "a value that cannot be shown"; }
  report("", slice(s, 0, 10000), "", "", "", false);
}

// The host's entries.
async function finish(main) {
  let v;
  try {
    v = await apply(main, undefined, []);
    v = v === undefined ? "null" : encode("the result", v);
  } catch (e) {
    describe(host.fail, e);
    return;
  }
  host.done(v);
}
function deliver(id, seq, at, json, code, message) {
  now = at; after = seq;
  const e = mget(pending, id);
  if (e === undefined) return id > lastID ? "unknown" : "twice";
  mdel(pending, id);
  if (e.cancelled) return "";
  if (e.timer !== undefined && e.timer !== null) {
    try { apply(e.timer, undefined, e.rest); } catch (x) { (async () => { throw x; })(); }
    return "";
  }
  if (code === "") {
    e.resolve(json === "" ? undefined : parse(json));
    return "";
  }
  const err = new ToolError(message);
  hide(err, "code", code); hide(err, "tool", e.name);
  hide(err, "stack", e.stack);
  wset(notes, err, { __proto__: null, code, tool: e.name });
  e.reject(err);
  return "";
}
G.__pml_api = {
  __proto__: null, deliver, track,
  run(main) { finish(main); },
  start(input, at, a, b, c, d, resultBytes, logBytes) {
    now = at; cfg.resultBytes = resultBytes; cfg.logBytes = logBytes;
    seed(a, b, c, d);
    if (input !== "") hide(G, "input", parse(input));
  },
  global(k, json) { hide(G, k, parse(json)); },
  pure() { deleteProperty(G, "mcp"); deleteProperty(G, "setTimeout"); deleteProperty(G, "clearTimeout"); deleteProperty(G, "input"); },
  lost() {
    let first = true;
    meach(rejected, (reason) => { if (first) { first = false; describe(host.lost, reason); } });
  },
};

// Lazily made globals: most scripts use none of them.
const later = (k, i) => defineProperty(G, k, {
  __proto__: null, enumerable: false, configurable: true,
  get() { const v = webGlobals()[k]; hide(G, k, v); return v; },
  set(v) { hide(G, k, v); },
});
let web;
const loadWeb = G.__pml_web;
const webGlobals = () => {
  if (web === undefined) {
    loadWeb();
    const make = G.__pml_made;
    deleteProperty(G, "__pml_made");
    web = make(G);
  }
  return web;
};
later("URL"); later("URLSearchParams"); later("TextEncoder"); later("TextDecoder"); later("atob"); later("btoa"); later("structuredClone");

// What would read the world, share memory, or tell when garbage is collected.
for (const k of ["WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics", "performance", "navigator", "print", "gc", "scriptArgs", "os", "std", "bjson",
  "__pml_call", "__pml_sleep", "__pml_cancel", "__pml_log", "__pml_done", "__pml_fail", "__pml_lost", "__pml_web"]) deleteProperty(G, k);
})(globalThis);
