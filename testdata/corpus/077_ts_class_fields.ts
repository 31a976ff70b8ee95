// constructs: class fields with types, definite assignment, static block
class Job {
  static made: number;
  static { Job.made = 0; }
  name!: string;
  done = false;
  async run(): Promise<this> { this.name = (await mcp.rec.echo({ value: "job" + ++Job.made })).value; this.done = true; return this; }
}
const a = await new Job().run(), b = await new Job().run();
return [a, b, Job.made];
