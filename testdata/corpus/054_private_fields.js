// constructs: private fields and methods, static
class Counter {
  #last = 0;
  static made = 0;
  constructor() { Counter.made++; }
  async #bump() { this.#last = (await mcp.rec.inc({ key: "p" })).count; }
  async twice() { await this.#bump(); await this.#bump(); return this.#last; }
  static is(x) { return #last in x; }
}
const c = new Counter();
return [await c.twice(), Counter.made, Counter.is(c), Counter.is({})];
