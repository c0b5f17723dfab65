/** A list of paths as a tree that can be opened and closed. */

import type { FileInfo } from "../api/types";

export interface TreeRow {
  info: FileInfo;
  name: string;
  depth: number;
  /** Null for what is no directory. */
  open: boolean | null;
}

/** Directories before files, each by name; of those that are closed only themselves. */
export function treeRows(entries: FileInfo[], open: ReadonlySet<string>): TreeRow[] {
  const children = new Map<string, FileInfo[]>();
  for (const info of withParents(entries)) {
    const parent = info.path.slice(0, Math.max(0, info.path.lastIndexOf("/")));
    const known = children.get(parent);
    if (known) known.push(info);
    else children.set(parent, [info]);
  }
  const rows: TreeRow[] = [];
  walk("", 0);
  return rows;

  function walk(parent: string, depth: number): void {
    const found = (children.get(parent) ?? []).sort(
      (one, other) => Number(other.kind === "directory") - Number(one.kind === "directory") || (one.path < other.path ? -1 : 1),
    );
    for (const info of found) {
      const isOpen = info.kind === "directory" ? open.has(info.path) : null;
      rows.push({ info, name: info.path.slice(info.path.lastIndexOf("/") + 1), depth, open: isOpen });
      if (isOpen && depth < 100) walk(info.path, depth + 1);
    }
  }
}

/** A page of entries may hold what is in a directory and not the directory itself. */
function withParents(entries: FileInfo[]): FileInfo[] {
  const known = new Map(entries.map((each) => [each.path, each]));
  for (const { path } of entries) {
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) {
      const parent = path.slice(0, at);
      if (known.has(parent)) break;
      known.set(parent, { path: parent, kind: "directory", size: 0, mode: 0o755 });
    }
  }
  return [...known.values()];
}
