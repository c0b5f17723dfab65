/** Those rows of a shelf that are wanted. Each row is looked at once, however often somebody asks. */

import type { Row } from "./row";
import { Shelf } from "./shelf";

export class Sieve {
  private readonly found = new Shelf();
  private filled = 0;
  private added = 0;

  constructor(
    private readonly shelf: Shelf,
    private readonly wanted: (row: Row) => boolean,
  ) {}

  /** As of now. */
  rows(): Shelf {
    const { shelf } = this;
    for (const row of shelf.rows(this.filled, shelf.filled)) if (this.wanted(row)) this.found.fill(row);
    for (const row of shelf.rows(shelf.filled + this.added)) if (this.wanted(row)) this.found.append(row);
    this.filled = shelf.filled;
    this.added = shelf.length - shelf.filled;
    return this.found;
  }
}
