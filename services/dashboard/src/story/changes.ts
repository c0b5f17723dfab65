/** How one file came to be what it is: its changes, newest first. */

import { list, number, object, text, type Row } from "./row";

export interface Change {
  sequence: number;
  time: number;
  action: string;
  size: number | null;
  diff: string | null;
}

/** `path` is as the sandbox sees it. */
export function changesOf(rows: Iterable<Row>, path: string): Change[] {
  const found: Change[] = [];
  for (const row of rows) {
    const each = row.type === "file.batch" ? list(row.data, "changes") : [{ ...row.data, action: row.type.slice("file.".length) }];
    for (const change of each) {
      if (text(change, "path") !== path && text(change, "moved_from") !== path) continue;
      const facts = object(change, "facts");
      found.push({ sequence: row.sequence, time: row.time, action: text(change, "action"), size: number(facts, "size"), diff: text(facts, "diff") || null });
    }
  }
  return found.reverse();
}
