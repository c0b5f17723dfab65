/** All events of a sandbox, and apart from each other those that some view is made of. */

import { signal } from "@preact/signals";
import { familyOf, type Row } from "./row";
import { Shelf } from "./shelf";

/** What a sandbox says and is told, byte by byte: terminals read it from the log, and stories leave it out. */
const STREAMS = new Set(["command.output", "command.input"]);

export class Record extends Shelf {
  /** Counts up when rows came, at most once for each picture that the browser draws. */
  readonly version = signal(0);
  /** Everything but the bytes of commands. */
  readonly facts = new Shelf();
  private readonly families = new Map<string, Shelf>();
  private due = false;

  constructor(private readonly soon: (work: () => void) => void = (work) => requestAnimationFrame(work)) {
    super();
  }

  family(name: string): Shelf {
    let shelf = this.families.get(name);
    if (shelf === undefined) {
      shelf = new Shelf();
      this.families.set(name, shelf);
    }
    return shelf;
  }

  override append(row: Row): boolean {
    return super.append(row) && this.sort(row, (shelf) => shelf.append(row));
  }

  override fill(row: Row): boolean {
    return super.fill(row) && this.sort(row, (shelf) => shelf.fill(row));
  }

  private sort(row: Row, put: (shelf: Shelf) => void): true {
    if (!STREAMS.has(row.type)) {
      put(this.facts);
      // Nobody has asked for anything yet when a sandbox gets its way out.
      if (row.type !== "network.attached") put(this.family(familyOf(row.type)));
    }
    if (!this.due) {
      this.due = true;
      this.soon(() => {
        this.due = false;
        this.version.value += 1;
      });
    }
    return true;
  }
}
