/** Unified diffs as lines that can be coloured and folded. */

export type DiffKind = "added" | "removed" | "context" | "hunk";

export interface DiffLine {
  kind: DiffKind;
  text: string;
  /** The line's number before and after; null where it is not there. */
  old: number | null;
  new: number | null;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

export function parseDiff(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 0;
  let inside = false;
  for (const line of trimmed(diff)) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      inside = true;
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      lines.push({ kind: "hunk", text: line, old: null, new: null });
    } else if (inside && line.startsWith("+")) {
      lines.push({ kind: "added", text: line.slice(1), old: null, new: after++ });
    } else if (inside && line.startsWith("-")) {
      lines.push({ kind: "removed", text: line.slice(1), old: before++, new: null });
    } else if (inside && !line.startsWith("\\")) {
      lines.push({ kind: "context", text: line.slice(1), old: before++, new: after++ });
    }
  }
  return lines;
}

export interface Count {
  added: number;
  removed: number;
}

export function countDiff(diff: string): Count {
  let added = 0;
  let removed = 0;
  for (const line of parseDiff(diff)) {
    if (line.kind === "added") added += 1;
    if (line.kind === "removed") removed += 1;
  }
  return { added, removed };
}

/** The lines to show at first, and how many are folded away. A handful more is not worth a click. */
export function foldDiff(lines: DiffLine[], most: number): { shown: DiffLine[]; folded: number } {
  if (lines.length <= most * 1.25) return { shown: lines, folded: 0 };
  return { shown: lines.slice(0, most), folded: lines.length - most };
}

function trimmed(diff: string): string[] {
  return (diff.endsWith("\n") ? diff.slice(0, -1) : diff).split("\n");
}
