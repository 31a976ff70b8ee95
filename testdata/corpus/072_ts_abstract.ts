// constructs: abstract class, access modifiers, parameter properties
abstract class Base {
  constructor(protected readonly key: string, private n = 2) {}
  abstract one(): Promise<number>;
  public async all(): Promise<number[]> {
    const out: number[] = [];
    for (let i = 0; i < this.n; i++) out.push(await this.one());
    return out;
  }
}
class Inc extends Base {
  override async one() { return (await mcp.rec.inc({ key: this.key })).count as number; }
}
return await new Inc("abs").all();
