/** Rows in the order of the log, of which the earlier ones may come after the later ones. */

import type { Row } from "./row";

export class Shelf {
  private readonly older: Row[] = [];
  private readonly newer: Row[] = [];

  get length(): number {
    return this.older.length + this.newer.length;
  }

  /** How many of them were there before: the rest are new. */
  get filled(): number {
    return this.older.length;
  }

  get first(): Row | undefined {
    return this.older[0] ?? this.newer[0];
  }

  get last(): Row | undefined {
    return this.newer.at(-1) ?? this.older.at(-1);
  }

  at(index: number): Row | undefined {
    return index < this.older.length ? this.older[index] : this.newer[index - this.older.length];
  }

  /** The next of those that are new. Whether it was not there yet. */
  append(row: Row): boolean {
    const last = this.newer.at(-1);
    if (last !== undefined && row.sequence <= last.sequence) return false;
    this.newer.push(row);
    return true;
  }

  /** The next of those that were there before. Whether it was not there yet. */
  fill(row: Row): boolean {
    const last = this.older.at(-1);
    const first = this.newer[0];
    if (last !== undefined && row.sequence <= last.sequence) return false;
    if (first !== undefined && row.sequence >= first.sequence) return false;
    this.older.push(row);
    return true;
  }

  /** How many there are up to a sequence, with it; null = all. */
  countTo(sequence: number | null): number {
    if (sequence === null) return this.length;
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.at(middle) as Row).sequence <= sequence) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  findLast(wanted: (row: Row) => boolean): Row | undefined {
    return this.newer.findLast(wanted) ?? this.older.findLast(wanted);
  }

  *rows(from = 0, to = this.length): Generator<Row> {
    for (let index = from; index < to; index += 1) yield this.at(index) as Row;
  }
}
