// constructs: class with async methods
class Repo {
  constructor(root) { this.root = root; }
  async read(p) { return await mcp.rec.read({ path: this.root + "/" + p }); }
  async both(a, b) { return [await this.read(a), await this.read(b)]; }
}
return await new Repo("src").both("x", "y");
