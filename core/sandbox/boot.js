// The world of a script: what it may use besides ECMAScript. It runs before
// the script and takes what it needs of the language into its own variables,
// so that nothing that a script changes later reaches it. It therefore avoids
// array methods, spread, for-of and everything else that looks things up on
// prototypes.
(function (G) {
"use strict";
const host = { call: G.__pml_call, sleep: G.__pml_sleep, cancel: G.__pml_cancel, log: G.__pml_log, done: G.__pml_done, fail: G.__pml_fail, lost: G.__pml_lost, hint: G.__pml_hint };
const cfg = { __proto__: null, resultBytes: 0, logBytes: 0 };
const { apply, construct, defineProperty, deleteProperty, ownKeys, getPrototypeOf, setPrototypeOf } = Reflect;
const { freeze, create } = Object;
const { stringify, parse } = JSON;
const P = Promise, E = Error, TE = TypeError, RE = RangeError, REF = ReferenceError, IE = InternalError, S = String, N = Number;
const isArray = Array.isArray, isInteger = Number.isSafeInteger, fromCharCode = String.fromCharCode;
const parseInt0 = parseInt, parseFloat0 = parseFloat;
const floor = Math.floor, imul = Math.imul;
const fn = (f) => (self, a, b) => apply(f, self, [a, b]);
const charCodeAt = fn(S.prototype.charCodeAt), slice = fn(S.prototype.slice), indexOf = fn(S.prototype.indexOf);
const lower = fn(S.prototype.toLowerCase), isPrototypeOf = fn(Object.prototype.isPrototypeOf);
const M = Map, MP = Map.prototype, mget = fn(MP.get), mset = fn(MP.set), mdel = fn(MP.delete), mhas = fn(MP.has), meach = fn(MP.forEach);
const W = WeakMap, WP = WeakMap.prototype, wget = fn(WP.get), wset = fn(WP.set);
const SP = Set.prototype, sadd = fn(SP.add), seach = fn(SP.forEach);
const hide = (o, k, v) => defineProperty(o, k, { __proto__: null, value: v, writable: true, enumerable: false, configurable: true });
const fix = (o, k, v) => defineProperty(o, k, { __proto__: null, value: v, writable: false, enumerable: false, configurable: true });
const fix2 = (f, name) => { fix(f, "name", name); return f; };
const lower0 = S.prototype.toLowerCase, U8 = Uint8Array;
const typedArrayName = Object.getOwnPropertyDescriptor(getPrototypeOf(U8.prototype), Symbol.toStringTag).get;
const isObject = (v) => v !== null && (typeof v === "object" || typeof v === "function");

// Time is that of the last delivery.
let now = 0, after = 0;
const RealDate = Date, dateToString = fn(RealDate.prototype.toString), dateTime = fn(RealDate.prototype.getTime);
// The engine takes "Q3 2026" and "März 1 2026" for January, because it reads a
// number before a year as the month when it knows no month's name. As in node
// they are no dates.
const matches = fn(RegExp.prototype.exec), parseDate = RealDate.parse;
const numberAndYear = /^\D*\d{1,2}[^\d:]+(?:\d{3,}|3[2-9]|[4-9]\d)/, month = /\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)/i;
const noDate = (text) => matches(numberAndYear, text) !== null && matches(month, text) === null;
function VDate(text) {
  if (new.target === undefined) return dateToString(new RealDate(now));
  const read = arguments.length === 1 && typeof text === "string" && noDate(text) ? [NaN] : arguments;
  return construct(RealDate, read.length === 0 ? [now] : read, new.target);
}
fix(VDate, "name", "Date"); fix(VDate, "length", 7);
hide(VDate, "now", function () { return now; });
hide(VDate, "parse", fix2(function (text) { text = `${text}`; return noDate(text) ? NaN : parseDate(text); }, "parse")); hide(VDate, "UTC", RealDate.UTC);
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
  getRandomValues(array) {
    const kind = apply(typedArrayName, array, []);
    if (kind === undefined || indexOf(kind, "Float") === 0) throw new TE("crypto.getRandomValues needs an array of integers, such as new Uint8Array(16)");
    const bytes = new U8(array.buffer, array.byteOffset, array.byteLength);
    if (bytes.length > 65536) throw new RE("crypto.getRandomValues fills at most 65536 bytes at a time");
    for (let i = 0; i < bytes.length; i++) bytes[i] = next32() >>> 24;
    return array;
  },
}));

// What depends on a language or a zone is not known here: an error that says
// what to use is better than the text of another country.
const localized = (proto, k, use) => hide(proto, k, fix2(function () { throw new TE(k + " is not available here, because a script has no language and no time zone: " + use); }, k));
const byHand = "use ISO texts (toISOString) and build others from getUTCFullYear, getUTCMonth and the like; for another zone add its offset";
for (const k of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) localized(RealDate.prototype, k, byHand);
localized(N.prototype, "toLocaleString", "use toFixed(2), and .replace(/\\B(?=(\\d{3})+(?!\\d))/g, \",\") for groups of digits");
localized(BigInt.prototype, "toLocaleString", "use String(n)");
for (const k of ["toLocaleUpperCase", "toLocaleLowerCase"]) {
  const plain = k === "toLocaleUpperCase" ? S.prototype.toUpperCase : lower0;
  hide(S.prototype, k, fix2(function (locale) {
    if (locale !== undefined) throw new TE(k + " knows no language here: use " + plain.name + "()");
    return apply(plain, this, []);
  }, k));
}
// Two texts of ASCII are compared as in all languages that have no rules of their
// own for it: by the root collation. Others are refused.
// English has the root collation, unless a key after its region says otherwise (en-u-kn).
const english = (locales) => {
  const tag = S(isArray(locales) && locales.length > 0 ? locales[0] : locales);
  return tag === "en" || indexOf(tag, "en-") === 0 && tag.length === 5;
};
const order = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ";
const weights = [9, 10, 11, 12, 13, 32];
hide(S.prototype, "localeCompare", fix2(function localeCompare(that, locales, options) {
  const a = S(this), b = S(that);
  if (a === b) return 0;
  if (locales !== undefined && !english(locales) || options !== undefined) throw new TE("localeCompare takes no language and no options here: compare with a < b ? -1 : a > b ? 1 : 0, after toLowerCase() where case does not matter; for numbers in texts compare the numbers");
  const weight = (c) => {
    for (let i = 0; i < weights.length; i++) if (weights[i] === c) return i + 1;
    const i = c < 127 ? indexOf(order, fromCharCode(c)) : -1;
    if (i < 0) throw new TE("localeCompare knows the order of ASCII texts only: compare with a < b ? -1 : a > b ? 1 : 0");
    return i + 10;
  };
  const letters = 10 + indexOf(order, "a"), primary = (w) => w < letters ? w : letters + floor((w - letters) / 2);
  let second = 0, first = 0;
  for (let i = 0; i < a.length || i < b.length; i++) {
    const x = i < a.length ? weight(charCodeAt(a, i)) : 0, y = i < b.length ? weight(charCodeAt(b, i)) : 0;
    if (first === 0 && primary(x) !== primary(y)) first = primary(x) < primary(y) ? -1 : 1;
    if (second === 0 && x !== y) second = x < y ? -1 : 1;
  }
  return first || second;
}, "localeCompare"));
hide(Array, "fromAsync", fix2(async function (items, map, self) {
  const out = [];
  let i = 0;
  const add = async (v) => { defineProperty(out, i, { __proto__: null, value: map === undefined ? v : await apply(map, self, [v, i]), writable: true, enumerable: true, configurable: true }); i++; };
  if (items == null) throw new TE("Array.fromAsync needs an iterable");
  if (items[Symbol.asyncIterator] !== undefined || items[Symbol.iterator] !== undefined) { for await (const v of items) await add(v); return out; }
  for (let n = 0; n < items.length; n++) await add(await items[n]);
  return out;
}, "fromAsync"));

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
const isName = (s) => {
  for (let i = 0; i < s.length; i++) { const c = charCodeAt(s, i) | 32; if (!(c >= 97 && c <= 122 || s[i] === "_" || s[i] === "$" || i > 0 && s[i] >= "0" && s[i] <= "9")) return false; }
  return s !== "";
};
const memberOf = (name) => isName(name) ? "." + name : "[" + stringify(name) + "]";
// A call that was written as elsewhere: mcp.callTool("server:tool", {…}), or mcp.server({…}).
const notATool = (server, args) => {
  const id = typeof args[0] === "string" && args[0].length < 200 ? args[0] : "", colon = indexOf(id, ":");
  const lacks = server === "callTool" || server === "call_tool" || server === "call" || server === "listTools" || server === "tool" || server === "tools" || server === "invoke";
  if (colon > 0 && colon < id.length - 1) return (lacks ? "there is no mcp." + server + " here" : "mcp." + server + " cannot be called") + ": " + id + " is called as await mcp" + memberOf(slice(id, 0, colon)) + memberOf(slice(id, colon + 1)) + "({…})";
  if (lacks) return "there is no mcp." + server + " here: call a tool as await mcp.server.tool({…}), where server and tool are names that pml tools ls shows";
  return "mcp." + server + " is a server, not a tool: call await mcp." + server + ".tool({…}), where server and tool are names that pml tools ls shows";
};
const readOnly = (what) => () => { throw new TE(what + " is read-only"); };
const traps = (get) => ({ __proto__: null, get, set: readOnly("mcp"), defineProperty: readOnly("mcp"), deleteProperty: readOnly("mcp"), setPrototypeOf: readOnly("mcp") });
const isPlain = (k) => typeof k === "string" && k !== "then" && k !== "toJSON";
const servers = create(null);
function serverOf(server) {
  const tools = create(null);
  // A function, so that calling it can say what to call instead.
  const target = () => {};
  deleteProperty(target, "name"); deleteProperty(target, "length"); setPrototypeOf(target, null);
  const all = traps((_, tool) => {
    if (!isPlain(tool)) return undefined;
    return tools[tool] ??= freeze(fix2((args) => call(server, tool, args), tool));
  });
  all.apply = (_, _self, args) => { throw new TE(notATool(server, args)); };
  return new Proxy(target, all);
}
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
// A timer that a run does not wait for at its end, as that of AbortSignal.timeout.
let unrefs = 0;
function patientTimer(f, ms) {
  const id = ++lastID;
  unrefs++;
  mset(pending, id, { __proto__: null, timer: f, rest: [], unref: true });
  host.sleep(id, floor(ms), stackHere(), after);
}
// At the end of a turn of a script that has returned: where nothing else is open,
// nobody waits for these timers either.
function dropTimers() {
  if (unrefs === 0) return;
  let open = false;
  meach(pending, (e) => { if (!e.cancelled && !e.unref) open = true; });
  if (open) return;
  unrefs = 0;
  meach(pending, (e, id) => { if (!e.cancelled) { e.cancelled = true; e.timer = e.rest = null; host.cancel(id); } });
}
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
    let i = 0;
    if (arguments.length > 1 && typeof arguments[0] === "string" && indexOf(arguments[0], "%") >= 0) {
      const f = arguments[0];
      i = 1;
      for (let at = 0; at < f.length; at++) {
        const c = f[at], d = c === "%" ? f[at + 1] : "";
        if (d === "%") { s += "%"; at++; continue; }
        if (d === "" || d === undefined || indexOf("sdifjoOc", d) < 0 || i >= arguments.length) { s += c; continue; }
        at++;
        const v = arguments[i++];
        try {
          switch (d) {
          case "s": s += typeof v === "object" && v !== null ? inspect(v, 1, new M()) : inspect(v, 0, new M()); break;
          case "d": s += typeof v === "bigint" ? v + "n" : typeof v === "symbol" || isObject(v) ? "NaN" : N(v); break;
          case "i": s += typeof v === "bigint" ? v + "n" : isObject(v) ? "NaN" : parseInt0(v); break;
          case "f": s += typeof v === "symbol" ? "NaN" : parseFloat0(v); break;
          case "j": s += stringify(v); break;
          case "c": break;
          default: s += inspect(v, 1, new M());
          }
        } catch { s += "[not printable]"; }
      }
      if (i < arguments.length) s += " ";
    }
    const from = i;
    for (; i < arguments.length && s.length <= cfg.logBytes; i++) {
      let one;
      try { one = inspect(arguments[i], 0, new M()); } catch { one = "[not printable]"; }
      s += (i > from ? " " : "") + one;
    }
    if (s.length > cfg.logBytes) s = slice(s, 0, cfg.logBytes);
    quiet = host.log(level, s) === true;
  };
}
const log = logger("log"), none = function () {};
const cons = { debug: logger("debug"), info: logger("info"), log, warn: logger("warn"), error: logger("error"), dir: log, trace: logger("debug"), group: log,
  groupCollapsed: log, groupEnd: none, time: none, timeEnd: none, timeLog: none, count: none, countReset: none, clear: none };
cons.assert = function (ok) { if (!ok) { const e = cons.error; arguments[0] = "Assertion failed:"; apply(e, undefined, arguments); } };
// A line of a table is a line of the console: where lines are shown one by one it stays a table.
cons.table = function table(data, columns) {
  if (quiet) return;
  const lines = isObject(data) ? tables().table(data, columns) : undefined;
  if (lines === undefined) { log(data); return; }
  for (let i = 0; i < lines.length; i++) log(lines[i]);
};
hide(G, "console", cons);

// Names that scripts know from elsewhere. What is compiled says __pml_none.fetch for
// a fetch that nobody has declared: so the error says what to use, also where it is caught.
hide(G, "__pml_none", new Proxy(create(null), {
  __proto__: null,
  get(_, k) {
    if (typeof k !== "string") return undefined;
    if (k in G) return G[k];
    throw new REF("'" + k + "' is not defined (" + host.hint(k) + ")");
  },
  set(_, k) { throw new REF("'" + S(k) + "' is not defined (" + host.hint(k) + ")"); },
}));

// What a script threw, as strings.
const text = (f) => { try { const v = f(); return typeof v === "string" ? v : v === undefined ? "" : S(v); } catch { return ""; } };
function describe(report, e) {
  let isError = false;
  try { isError = isObject(e) && isPrototypeOf(E.prototype, e); } catch { /* a revoked proxy */ }
  if (isError) {
    const note = wget(notes, e);
    report(text(() => e.name), text(() => e.message), text(() => e.stack), note ? note.code : "", note && note.tool ? note.tool : "", isPrototypeOf(IE.prototype, e), !!note && note.retryable === true);
    return;
  }
  let s;
  try { s = inspect(e, 0, new M()); } catch { s = "a value that cannot be shown"; }
  report("", slice(s, 0, 10000), "", "", "", false, false);
}

// freezeAll freezes JSON, all the way down.
function freezeAll(v) {
  if (v === null || typeof v !== "object") return v;
  const keys = ownKeys(v);
  for (let i = 0; i < keys.length; i++) freezeAll(v[keys[i]]);
  return freeze(v);
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
function deliver(id, seq, at, json, code, message, retryable) {
  now = at; after = seq;
  const e = mget(pending, id);
  if (e === undefined) return id > lastID ? "unknown" : "twice";
  mdel(pending, id);
  if (e.cancelled) return "";
  if (e.unref) unrefs--;
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
  if (retryable) hide(err, "retryable", true);
  wset(notes, err, { __proto__: null, code, tool: e.name, retryable });
  e.reject(err);
  return "";
}
G.__pml_api = {
  __proto__: null, deliver, track, here: stackHere,
  run(main) { finish(main); },
  start(input, at, a, b, c, d, resultBytes, logBytes, told, results) {
    hide(G, "pml", freeze({ __proto__: null, limits: freeze({ __proto__: null, result_bytes: told }) }));
    now = at; cfg.resultBytes = resultBytes; cfg.logBytes = logBytes;
    seed(a, b, c, d);
    if (input !== "") hide(G, "input", parse(input));
    if (results !== "") hide(G, "results", parse(results));
  },
  global(k, json, frozen) {
    const v = parse(json);
    if (frozen) fix(G, k, freezeAll(v)); else hide(G, k, v);
  },
  pure(frozen) {
    deleteProperty(G, "mcp"); deleteProperty(G, "setTimeout"); deleteProperty(G, "clearTimeout"); deleteProperty(G, "input");
    if (frozen) deleteProperty(G, "pml");
  },
  lost() {
    dropTimers();
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
const lazily = (load, options) => {
  let made;
  return () => {
    if (made === undefined) {
      load();
      const make = G.__pml_made;
      deleteProperty(G, "__pml_made");
      made = make(G, options);
    }
    return made;
  };
};
const webGlobals = lazily(G.__pml_web, { __proto__: null, timer: patientTimer }), tables = lazily(G.__pml_table);
later("URL"); later("URLSearchParams"); later("TextEncoder"); later("TextDecoder"); later("atob"); later("btoa"); later("structuredClone");
later("AbortController"); later("AbortSignal"); later("Event"); later("EventTarget"); later("DOMException");

// What would read the world, share memory, or tell when garbage is collected.
for (const k of ["WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics", "performance", "navigator", "print", "gc", "scriptArgs", "os", "std", "bjson",
  "__pml_call", "__pml_sleep", "__pml_cancel", "__pml_log", "__pml_done", "__pml_fail", "__pml_lost", "__pml_hint", "__pml_web", "__pml_table"]) deleteProperty(G, k);
})(globalThis);
