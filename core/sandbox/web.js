// The globals that scripts know from browsers and servers: URL, text codecs,
// base64, structuredClone and AbortController. Evaluates to a function that makes them.
(function (G, host) {
"use strict";
const { freeze } = Object;
const fromCharCode = String.fromCharCode, fromCodePoint = String.fromCodePoint;
const hasOwn = Object.hasOwn;

function utf8(s) {
  const out = [];
  s = String(s);
  for (let i = 0; i < s.length; i++) {
    let c = s.charCodeAt(i);
    if (c >= 0xd800 && c < 0xdc00 && i + 1 < s.length) {
      const d = s.charCodeAt(i + 1);
      if (d >= 0xdc00 && d < 0xe000) { c = 0x10000 + (c - 0xd800 << 10) + (d - 0xdc00); i++; }
    }
    if (c >= 0xd800 && c < 0xe000) c = 0xfffd;
    if (c < 0x80) out.push(c);
    else if (c < 0x800) out.push(0xc0 | c >> 6, 0x80 | c & 63);
    else if (c < 0x10000) out.push(0xe0 | c >> 12, 0x80 | c >> 6 & 63, 0x80 | c & 63);
    else out.push(0xf0 | c >> 18, 0x80 | c >> 12 & 63, 0x80 | c >> 6 & 63, 0x80 | c & 63);
  }
  return out;
}
class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(s = "") { return new Uint8Array(utf8(s)); }
  encodeInto(s, dest) {
    let read = 0, written = 0;
    for (const ch of String(s)) {
      const b = utf8(ch);
      if (written + b.length > dest.length) break;
      dest.set(b, written);
      written += b.length; read += ch.length;
    }
    return { read, written };
  }
}
// decode reads UTF-8; a broken sequence gives one U+FFFD for its longest valid start.
function decode(b, fatal) {
  let s = "", part = [];
  const bad = () => { if (fatal) throw new TypeError("the bytes are not valid UTF-8"); return 0xfffd; };
  for (let i = 0; i < b.length;) {
    const c = b[i++];
    let cp = c;
    if (c >= 0x80) {
      let n = c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 0;
      let lo = c === 0xe0 ? 0xa0 : c === 0xf0 ? 0x90 : 0x80, hi = c === 0xed ? 0x9f : c === 0xf4 ? 0x8f : 0xbf;
      if (n === 0) cp = bad();
      else {
        cp = c & (n === 1 ? 0x1f : n === 2 ? 0x0f : 0x07);
        for (; n > 0; n--) {
          if (i >= b.length || b[i] < lo || b[i] > hi) { cp = bad(); break; }
          cp = cp << 6 | b[i++] & 63;
          lo = 0x80; hi = 0xbf;
        }
      }
    }
    s += fromCodePoint(cp);
  }
  return s;
}
function bytesOf(v) {
  if (v === undefined) return new Uint8Array(0);
  if (v instanceof ArrayBuffer) return new Uint8Array(v);
  if (ArrayBuffer.isView(v)) return new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
  throw new TypeError("TextDecoder.decode needs an ArrayBuffer or a view of one");
}
class TextDecoder {
  #fatal; #bom;
  constructor(label = "utf-8", options = {}) {
    const l = String(label).trim().toLowerCase();
    if (l !== "utf-8" && l !== "utf8") throw new RangeError("TextDecoder knows utf-8 only, not " + l);
    this.#fatal = !!options.fatal; this.#bom = !!options.ignoreBOM;
  }
  get encoding() { return "utf-8"; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#bom; }
  decode(v) {
    const s = decode(bytesOf(v), this.#fatal);
    return !this.#bom && s.charCodeAt(0) === 0xfeff ? s.slice(1) : s;
  }
}

const domCodes = { __proto__: null, InvalidCharacterError: 5, AbortError: 20, TimeoutError: 23, DataCloneError: 25 };
class DOMException extends Error {
  constructor(message = "", name = "Error") { super(message); Object.defineProperty(this, "name", { value: String(name), configurable: true }); }
  get code() { return domCodes[this.name] ?? 0; }
}
const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
function btoa(v) {
  const s = String(v);
  let out = "";
  for (let i = 0; i < s.length; i += 3) {
    const a = s.charCodeAt(i), b = s.charCodeAt(i + 1), c = s.charCodeAt(i + 2);
    if (a > 255 || b > 255 || c > 255) throw new DOMException("btoa: the text has characters outside Latin-1; encode it with TextEncoder first", "InvalidCharacterError");
    out += digits[a >> 2] + digits[(a & 3) << 4 | b >> 4] + (i + 1 < s.length ? digits[(b & 15) << 2 | c >> 6] : "=") + (i + 2 < s.length ? digits[c & 63] : "=");
  }
  return out;
}
function atob(v) {
  let s = String(v).replace(/[\t\n\f\r ]/g, "");
  if (s.length % 4 === 0) s = s.replace(/==?$/, "");
  if (s.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(s)) throw new DOMException("atob: the text is not valid base64", "InvalidCharacterError");
  let out = "", acc = 0, bits = 0;
  for (let i = 0; i < s.length; i++) {
    acc = (acc << 6 | digits.indexOf(s[i])) & 0xffffff;
    bits += 6;
    if (bits >= 8) { bits -= 8; out += fromCharCode(acc >> bits & 255); }
  }
  return out;
}

const errors = { Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError };
function clone(v, seen) {
  if (typeof v === "function" || typeof v === "symbol") throw new DOMException((typeof v === "symbol" ? "a symbol" : "a function") + " cannot be cloned", "DataCloneError");
  if (typeof v !== "object" || v === null) return v;
  if (seen.has(v)) return seen.get(v);
  const keep = (c) => { seen.set(v, c); return c; };
  if (Array.isArray(v)) {
    const out = keep(new Array(v.length));
    for (const k of Object.keys(v)) out[k] = clone(v[k], seen);
    return out;
  }
  if (v instanceof Date) return keep(new Date(v.getTime()));
  if (v instanceof RegExp) return keep(new RegExp(v.source, v.flags));
  if (v instanceof Map) { const out = keep(new Map()); for (const [k, x] of [...v]) out.set(clone(k, seen), clone(x, seen)); return out; }
  if (v instanceof Set) { const out = keep(new Set()); for (const x of [...v]) out.add(clone(x, seen)); return out; }
  if (v instanceof ArrayBuffer) return keep(v.slice(0));
  if (ArrayBuffer.isView(v)) {
    const buffer = clone(v.buffer, seen);
    return keep(v instanceof DataView ? new DataView(buffer, v.byteOffset, v.byteLength) : new v.constructor(buffer, v.byteOffset, v.length));
  }
  if (v instanceof Error) {
    const K = hasOwn(errors, v.name) ? errors[v.name] : Error, out = keep(new K(v.message));
    Object.defineProperty(out, "stack", { value: v.stack, writable: true, configurable: true });
    if (hasOwn(v, "cause")) Object.defineProperty(out, "cause", { value: clone(v.cause, seen), writable: true, configurable: true });
    return out;
  }
  if (v instanceof Boolean || v instanceof Number || v instanceof String || v instanceof BigInt) return keep(Object(v.valueOf()));
  if (v instanceof Promise || v instanceof WeakMap || v instanceof WeakSet) throw new DOMException("a " + v.constructor.name + " cannot be cloned", "DataCloneError");
  const out = keep({});
  for (const k of Object.keys(v)) Object.defineProperty(out, k, { value: clone(v[k], seen), writable: true, enumerable: true, configurable: true });
  return out;
}
function structuredClone(v) {
  if (arguments.length === 0) throw new TypeError("structuredClone needs a value");
  return clone(v, new Map());
}

function percent(s, keep) {
  let out = "";
  for (const ch of s) {
    if (ch.charCodeAt(0) < 0x80 && keep.test(ch)) { out += ch; continue; }
    for (const b of utf8(ch)) out += "%" + (b < 16 ? "0" : "") + b.toString(16).toUpperCase();
  }
  return out;
}
function unpercent(s) {
  if (s.indexOf("%") < 0) return s;
  const b = utf8(s), out = [];
  for (let i = 0; i < b.length; i++) {
    const h = b[i] === 37 && i + 2 < b.length ? fromCharCode(b[i + 1], b[i + 2]) : "";
    if (/^[0-9a-fA-F]{2}$/.test(h)) { out.push(parseInt(h, 16)); i += 2; } else out.push(b[i]);
  }
  return decode(out, false);
}
const form = (s) => percent(s, /[A-Za-z0-9*\-._ ]/).replaceAll(" ", "+");

class URLSearchParams {
  #list = []; #changed = null;
  constructor(init = "") {
    if (init !== null && typeof init === "object") {
      if (typeof init[Symbol.iterator] === "function") for (const pair of init) {
        const p = [...pair];
        if (p.length !== 2) throw new TypeError("URLSearchParams: each item must be a pair of name and value");
        this.#list.push([String(p[0]), String(p[1])]);
      }
      else for (const k of Object.keys(init)) this.#list.push([k, String(init[k])]);
      return;
    }
    this.#read(String(init));
  }
  #read(s) {
    if (s[0] === "?") s = s.slice(1);
    this.#list = [];
    for (const part of s.split("&")) {
      if (part === "") continue;
      const i = part.indexOf("="), dec = (x) => unpercent(x.replaceAll("+", " "));
      this.#list.push(i < 0 ? [dec(part), ""] : [dec(part.slice(0, i)), dec(part.slice(i + 1))]);
    }
  }
  static _bind(p, changed) { p.#changed = changed; }
  static _read(p, s) { p.#read(s); }
  #touch() { if (this.#changed) this.#changed(this.toString()); }
  get size() { return this.#list.length; }
  append(k, v) { this.#list.push([String(k), String(v)]); this.#touch(); }
  delete(k, v) { this.#list = this.#list.filter((p) => p[0] !== String(k) || v !== undefined && p[1] !== String(v)); this.#touch(); }
  get(k) { const p = this.#list.find((p) => p[0] === String(k)); return p ? p[1] : null; }
  getAll(k) { return this.#list.filter((p) => p[0] === String(k)).map((p) => p[1]); }
  has(k, v) { return this.#list.some((p) => p[0] === String(k) && (v === undefined || p[1] === String(v))); }
  set(k, v) {
    const i = this.#list.findIndex((p) => p[0] === String(k));
    if (i < 0) { this.append(k, v); return; }
    this.#list = this.#list.filter((p, j) => j <= i || p[0] !== String(k));
    this.#list[i] = [String(k), String(v)];
    this.#touch();
  }
  sort() { this.#list.sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0); this.#touch(); }
  forEach(f, self) { for (const [k, v] of this.#list) f.call(self, v, k, this); }
  *entries() { for (const p of this.#list) yield [p[0], p[1]]; }
  *keys() { for (const p of this.#list) yield p[0]; }
  *values() { for (const p of this.#list) yield p[1]; }
  [Symbol.iterator]() { return this.entries(); }
  get [Symbol.toStringTag]() { return "URLSearchParams"; }
  toString() { return this.#list.map(([k, v]) => form(k) + "=" + form(v)).join("&"); }
}
const bindParams = URLSearchParams._bind, readParams = URLSearchParams._read;
delete URLSearchParams._bind; delete URLSearchParams._read;

const ports = { __proto__: null, "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
const keepUser = /[A-Za-z0-9\-._~!$&'()*+,%]/, keepPath = /[A-Za-z0-9\-._~!$&'()*+,;=:@%/\[\]|\\^]/;
const keepQuery = /[A-Za-z0-9\-._~!$&()*+,;=:@%/?\[\]|\\^{}`]/, keepHash = /[A-Za-z0-9\-._~!$&'()*+,;=:@%/?#\[\]|\\^{}]/, keepOpaque = /[\x20-\x7e]/;
const invalid = (s) => new TypeError("Invalid URL: " + s);

function ipv4(host, s) {
  const parts = host.split(".");
  if (parts.at(-1) === "" && parts.length > 1) parts.pop();
  if (!/^(0[xX][0-9a-fA-F]*|[0-9]+)$/.test(parts.at(-1))) return null;
  if (parts.length > 4) throw invalid(s);
  const n = parts.map((p) => {
    const v = /^0[xX]/.test(p) ? (p.length === 2 ? 0 : /^0[xX][0-9a-fA-F]+$/.test(p) ? parseInt(p, 16) : NaN) : /^0[0-7]+$/.test(p) ? parseInt(p, 8) : /^(0|[1-9][0-9]*)$/.test(p) ? Number(p) : NaN;
    if (v !== v) throw invalid(s);
    return v;
  });
  const last = n.pop();
  if (n.some((v) => v > 255) || last >= 256 ** (4 - n.length)) throw invalid(s);
  let v = last;
  n.forEach((x, i) => { v += x * 256 ** (3 - i); });
  return [24, 16, 8, 0].map((b) => Math.floor(v / 2 ** b) % 256).join(".");
}
function ipv6(text, s) {
  const halves = text.split("::");
  if (halves.length > 2) throw invalid(s);
  const group = (h) => {
    if (h === "") return [];
    return h.split(":").flatMap((g, i, all) => {
      if (i === all.length - 1 && g.includes(".")) {
        if (!/^((25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(25[0-5]|2[0-4]\d|1?\d?\d)$/.test(g)) throw invalid(s);
        const b = g.split(".").map(Number);
        return [b[0] << 8 | b[1], b[2] << 8 | b[3]];
      }
      if (!/^[0-9a-fA-F]{1,4}$/.test(g)) throw invalid(s);
      return [parseInt(g, 16)];
    });
  };
  const a = group(halves[0]), b = halves.length === 2 ? group(halves[1]) : [];
  if (halves.length === 1 ? a.length !== 8 : a.length + b.length > 7) throw invalid(s);
  const g = [...a, ...new Array(8 - a.length - b.length).fill(0), ...b];
  let at = -1, len = 1;
  for (let i = 0; i < 8; i++) { let j = i; while (j < 8 && g[j] === 0) j++; if (j - i > len) { at = i; len = j - i; } }
  const h = (x) => x.map((v) => v.toString(16)).join(":");
  return "[" + (at < 0 ? h(g) : h(g.slice(0, at)) + "::" + h(g.slice(at + len))) + "]";
}
function hostOf(text, special, s) {
  if (text[0] === "[") { if (text.at(-1) !== "]") throw invalid(s); return ipv6(text.slice(1, -1), s); }
  if (!special) { if (/[\0\t\n\r #/:<>?@[\\\]^|]/.test(text)) throw invalid(s); return percent(text, /[\x21-\x7e]/); }
  const h = unpercent(text).toLowerCase();
  if (h === "" || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(h)) throw invalid(s);
  if (/[^\0-\x7f]/.test(h)) throw new TypeError("Invalid URL: " + s + " (a host name with letters outside ASCII must be given in its xn-- form)");
  return ipv4(h, s) ?? h;
}
function pathOf(text, special, file, base) {
  const out = base, parts = (special ? text.replaceAll("\\", "/") : text).split("/");
  parts.forEach((p, i) => {
    const last = i === parts.length - 1, dot = p.toLowerCase().replaceAll("%2e", ".");
    if (dot === "..") { out.pop(); if (last) out.push(""); }
    else if (dot === ".") { if (last) out.push(""); }
    else out.push(percent(p, keepPath));
  });
  return out;
}
function parseURL(input, base) {
  let s = input.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
  const u = { protocol: "", username: "", password: "", host: null, port: "", path: [], opaque: null, query: null, hash: null };
  const cut = (mark) => { const i = s.indexOf(mark); if (i < 0) return null; const r = s.slice(i + 1); s = s.slice(0, i); return r; };
  const hash = cut("#");
  if (hash !== null) u.hash = percent(hash, keepHash);
  const m = /^([A-Za-z][A-Za-z0-9+\-.]*):/.exec(s);
  let scheme = m ? m[1].toLowerCase() + ":" : "";
  let rest = m ? s.slice(m[0].length) : s;
  if (scheme === "" && base === null) throw invalid(input);
  const special = (scheme === "" ? base.protocol : scheme) in ports;
  const relative = scheme === "" || special && base !== null && scheme === base.protocol && !/^[/\\]/.test(rest);
  u.protocol = relative ? base.protocol : scheme;
  s = rest;
  const query = cut("?");
  if (query !== null) u.query = percent(query, special ? keepQuery : /[A-Za-z0-9\-._~!$&'()*+,;=:@%/?\[\]|\\^{}`]/);
  const slash = special ? /^[/\\]{2}/ : /^\/\//;
  if (relative && base.opaque !== null) {
    if (s !== "" || query !== null || hash === null) throw invalid(input);
    return { ...base, path: [], hash: u.hash };
  }
  if (u.protocol === "file:" && !relative && !slash.test(s)) { u.host = ""; u.path = pathOf(s.replace(/^[/\\]/, ""), true, true, []); }
  else if (slash.test(s) || special && !relative && u.protocol !== "file:") authority(u, s.replace(u.protocol === "file:" || relative ? slash : special ? /^[/\\]*/ : slash, ""), special, input);
  else if (!relative && !special) {
    if (s[0] === "/") u.path = pathOf(s.slice(1), false, false, []);
    else u.opaque = percent(s, keepOpaque);
  } else if (!relative) { u.host = ""; u.path = pathOf(s.replace(/^[/\\]/, ""), true, true, []); }
  else {
    u.username = base.username; u.password = base.password; u.host = base.host; u.port = base.port;
    if (s === "") { u.path = [...base.path]; if (query === null) u.query = base.query; }
    else if (/^[/\\]/.test(s) && (special || s[0] === "/")) u.path = pathOf(s.slice(1), special, false, []);
    else u.path = pathOf(s, special, false, base.path.slice(0, -1));
  }
  return u;
}
function authority(u, s, special, input) {
  const end = s.search(special ? /[/\\]/ : /\//);
  let auth = end < 0 ? s : s.slice(0, end), path = end < 0 ? "" : s.slice(end + 1);
  if (u.protocol === "file:") u.host = auth === "" || auth.toLowerCase() === "localhost" ? "" : hostOf(auth, true, input);
  else {
    const at = auth.lastIndexOf("@");
    if (at >= 0) {
      const info = auth.slice(0, at), c = info.indexOf(":");
      u.username = percent(c < 0 ? info : info.slice(0, c), keepUser);
      u.password = c < 0 ? "" : percent(info.slice(c + 1), keepUser);
      auth = auth.slice(at + 1);
    }
    const p = /:([^:\]]*)$/.exec(auth);
    if (p) { auth = auth.slice(0, p.index); u.port = portOf(p[1], u.protocol, input); }
    u.host = auth === "" && !special ? "" : hostOf(auth, special, input);
  }
  u.path = end < 0 && !special ? [] : pathOf(path, special, u.protocol === "file:", []);
}
function portOf(p, protocol, input) {
  if (!/^[0-9]*$/.test(p) || Number(p) > 65535) throw invalid(input);
  const n = p === "" ? "" : String(Number(p));
  return n === ports[protocol] ? "" : n;
}

class URL {
  #u; #params;
  constructor(url, base) {
    this.#u = parseURL(String(url), base === undefined ? null : parseURL(String(base), null));
  }
  static canParse(url, base) { try { new URL(url, base); return true; } catch { return false; } }
  static parse(url, base) { try { return new URL(url, base); } catch { return null; } }
  get href() {
    const u = this.#u, auth = u.username === "" && u.password === "" ? "" : u.username + (u.password === "" ? "" : ":" + u.password) + "@";
    return u.protocol + (u.host === null ? (u.opaque === null && u.path.length > 1 && u.path[0] === "" ? "/." : "") : "//" + auth + this.host) + this.pathname + (u.query === null ? "" : "?" + u.query) + (u.hash === null ? "" : "#" + u.hash);
  }
  set href(v) { this.#u = parseURL(String(v), null); this.#sync(); }
  #sync() { if (this.#params) readParams(this.#params, this.#u.query ?? ""); }
  #again(change) { try { change(this.#u); } catch { /* a setter ignores what is not valid */ } }
  get #special() { return this.#u.protocol in ports; }
  get origin() { const p = this.#u.protocol; return p in ports && p !== "file:" ? p + "//" + this.host : "null"; }
  get protocol() { return this.#u.protocol; }
  set protocol(v) {
    const p = String(v).replace(/:.*$/s, "").toLowerCase() + ":";
    if (!/^[a-z][a-z0-9+\-.]*:$/.test(p) || (p in ports) !== this.#special) return;
    this.#u.protocol = p;
    if (this.#u.port === ports[p]) this.#u.port = "";
  }
  get username() { return this.#u.username; }
  set username(v) { if (this.#u.host) this.#u.username = percent(String(v), keepUser); }
  get password() { return this.#u.password; }
  set password(v) { if (this.#u.host) this.#u.password = percent(String(v), keepUser); }
  get host() { return (this.#u.host ?? "") + (this.#u.port === "" ? "" : ":" + this.#u.port); }
  set host(v) {
    this.#again((u) => {
      if (u.opaque !== null) return;
      const m = /^(\[[^\]]*\]|[^:/?#\\]*)(?::([0-9]*))?/.exec(String(v)), h = hostOf(m[1], this.#special, v);
      if (m[2]) u.port = portOf(m[2], u.protocol, v);
      u.host = h;
    });
  }
  get hostname() { return this.#u.host ?? ""; }
  set hostname(v) { this.#again((u) => { if (u.opaque === null) u.host = hostOf(String(v), this.#special, v); }); }
  get port() { return this.#u.port; }
  set port(v) { this.#again((u) => { if (u.host && u.protocol !== "file:") u.port = portOf(/^[0-9]*/.exec(String(v))[0], u.protocol, v); }); }
  get pathname() { const u = this.#u; return u.opaque !== null ? u.opaque : u.path.length === 0 ? "" : "/" + u.path.join("/"); }
  set pathname(v) { const u = this.#u; if (u.opaque === null) u.path = pathOf(percent(String(v).replace(this.#special ? /^[/\\]/ : /^\//, ""), /[^?#]/), this.#special, false, []); }
  get search() { const q = this.#u.query; return q === null || q === "" ? "" : "?" + q; }
  set search(v) { const q = String(v).replace(/^\?/, ""); this.#u.query = q === "" ? null : percent(q, keepQuery); this.#sync(); }
  get hash() { const h = this.#u.hash; return h === null || h === "" ? "" : "#" + h; }
  set hash(v) { const h = String(v).replace(/^#/, ""); this.#u.hash = h === "" ? null : percent(h, keepHash); }
  get searchParams() {
    if (!this.#params) {
      this.#params = new URLSearchParams(this.#u.query ?? "");
      bindParams(this.#params, (q) => { this.#u.query = q === "" ? null : q; });
    }
    return this.#params;
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
  get [Symbol.toStringTag]() { return "URL"; }
}

class Event {
  #type; #cancelable;
  target = null; currentTarget = null; defaultPrevented = false; timeStamp = 0; _stop = false;
  constructor(type, init) {
    if (arguments.length === 0) throw new TypeError("Event needs a type");
    this.#type = String(type); this.#cancelable = Boolean(init?.cancelable);
    Object.defineProperty(this, "_stop", { value: false, writable: true, enumerable: false });
  }
  get type() { return this.#type; }
  get cancelable() { return this.#cancelable; }
  preventDefault() { if (this.#cancelable) this.defaultPrevented = true; }
  stopImmediatePropagation() { this._stop = true; }
  stopPropagation() {}
}
class EventTarget {
  #list = [];
  addEventListener(type, f, options) {
    if (f === null || f === undefined) return;
    const signal = options?.signal;
    if (signal?.aborted || this.#list.some((l) => l.type === String(type) && l.f === f)) return;
    this.#list.push({ type: String(type), f, once: Boolean(options?.once) });
    signal?.addEventListener("abort", () => this.removeEventListener(type, f), { once: true });
  }
  removeEventListener(type, f) { this.#list = this.#list.filter((l) => l.type !== String(type) || l.f !== f); }
  dispatchEvent(e) {
    if (!(e instanceof Event)) throw new TypeError("dispatchEvent needs an Event");
    e.target = e.currentTarget = this;
    for (const l of this.#list.filter((l) => l.type === e.type)) {
      if (e._stop) break;
      if (l.once) this.removeEventListener(l.type, l.f);
      // What a listener throws stops nobody else; the run fails with it, as node does.
      try { typeof l.f === "function" ? l.f.call(this, e) : l.f.handleEvent(e); } catch (x) { (async () => { throw x; })(); }
    }
    e.currentTarget = null;
    return !e.defaultPrevented;
  }
}
let making = false;
class AbortSignal extends EventTarget {
  #aborted = false; #reason; #followers = [];
  #on = null; #listens = false;
  get onabort() { return this.#on; }
  set onabort(f) {
    this.#on = typeof f === "function" ? f : null;
    if (this.#listens) return;
    this.#listens = true; // from now on it has its place among the others
    this.addEventListener("abort", (e) => { if (this.#on) this.#on.call(this, e); });
  }
  constructor() { if (!making) throw new TypeError("Illegal constructor: use new AbortController().signal, AbortSignal.abort(), AbortSignal.timeout(ms) or AbortSignal.any(list)"); super(); }
  static _make() { making = true; try { return new AbortSignal(); } finally { making = false; } }
  static _abort(s, reason) {
    if (s.#aborted) return;
    s.#aborted = true;
    s.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
    const followers = s.#followers;
    s.#followers = [];
    s.dispatchEvent(new Event("abort"));
    for (const f of followers) abortSignal(f, s.#reason);
  }
  static abort(reason) { const s = makeSignal(); abortSignal(s, reason); return s; }
  static timeout(ms) {
    if (!(Number(ms) >= 0 && Number(ms) <= Number.MAX_SAFE_INTEGER)) throw new RangeError("AbortSignal.timeout needs milliseconds, from 0 on");
    const s = makeSignal();
    host.timer(() => abortSignal(s, new DOMException("The operation was aborted due to timeout", "TimeoutError")), Math.min(Number(ms), 2147483647));
    return s;
  }
  static any(signals) {
    const s = makeSignal(), list = [...signals];
    for (const x of list) if (!(x instanceof AbortSignal)) throw new TypeError("AbortSignal.any needs a list of signals");
    const done = list.find((x) => x.#aborted);
    if (done) abortSignal(s, done.#reason);
    else for (const x of list) x.#followers.push(s);
    return s;
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  throwIfAborted() { if (this.#aborted) throw this.#reason; }
  get [Symbol.toStringTag]() { return "AbortSignal"; }
}
const makeSignal = AbortSignal._make, abortSignal = AbortSignal._abort;
delete AbortSignal._make; delete AbortSignal._abort;
class AbortController {
  #signal = makeSignal();
  get signal() { return this.#signal; }
  abort(reason) { abortSignal(this.#signal, reason); }
  get [Symbol.toStringTag]() { return "AbortController"; }
}

return { __proto__: null, URL, URLSearchParams, TextEncoder, TextDecoder, atob, btoa, structuredClone, AbortController, AbortSignal, Event, EventTarget, DOMException };
})
