/** Where the rows of a long list begin. Each is taken for as high as the others until it was seen, and known by its name then. */

export class Heights {
  /** Where each row begins, and behind the last one the height of them all. */
  offsets = new Float64Array(1);
  private heights = new Float64Array(0);
  private readonly seen = new Map<string, number>();
  /** The names of rows that were seen, by their places. */
  private names: (string | undefined)[] = [];

  constructor(private readonly estimate: number) {}

  /** There are so many rows now. Those that were there keep their places, or `place` finds out. */
  resize(count: number): void {
    const before = this.offsets.length - 1;
    if (count === before) return;
    if (count > this.heights.length) {
      const grown = new Float64Array(Math.max(count, this.heights.length * 2)).fill(this.estimate);
      grown.set(this.heights);
      this.heights = grown;
    }
    const offsets = new Float64Array(count + 1);
    offsets.set(this.offsets.subarray(0, Math.min(before, count) + 1));
    this.offsets = offsets;
    this.add(Math.min(before, count));
  }

  /** Those in sight have these names. Whether rows have changed their places, so that all of them begin elsewhere. */
  place(first: number, end: number, nameOf: (index: number) => string): boolean {
    for (let index = first; index < end; index += 1) {
      const [had, name] = [this.names[index], nameOf(index)];
      if (had === name || (had === undefined && !this.seen.has(name))) continue;
      this.replace(nameOf);
      return true;
    }
    return false;
  }

  /** How high rows turned out to be. Whether that is news. */
  measure(rows: Iterable<{ index: number; name: string; height: number }>): boolean {
    let lowest = Infinity;
    for (const { index, name, height } of rows) {
      this.seen.set(name, height);
      this.names[index] = name;
      if (this.heights[index] === height) continue;
      this.heights[index] = height;
      lowest = Math.min(lowest, index);
    }
    if (lowest === Infinity) return false;
    this.add(lowest);
    return true;
  }

  private replace(nameOf: (index: number) => string): void {
    const count = this.offsets.length - 1;
    this.names = [];
    this.heights.fill(this.estimate);
    for (let index = 0; index < count; index += 1) {
      const name = nameOf(index);
      const height = this.seen.get(name);
      if (height === undefined) continue;
      this.heights[index] = height;
      this.names[index] = name;
    }
    this.add(0);
  }

  private add(from: number): void {
    const { heights, offsets } = this;
    for (let index = from; index < offsets.length - 1; index += 1) offsets[index + 1] = (offsets[index] ?? 0) + (heights[index] ?? 0);
  }
}
