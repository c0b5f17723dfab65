import { describe, expect, it } from "vitest";
import type { FileInfo } from "../src/api/types";
import { changesOf } from "../src/story/changes";
import { rowOf } from "../src/story/row";
import { treeRows } from "../src/story/tree";

const file = (path: string): FileInfo => ({ path, kind: "file", size: 1, mode: 0o644 });
const directory = (path: string): FileInfo => ({ path, kind: "directory", size: 0, mode: 0o755 });

describe("a tree", () => {
  it("shows directories first, and what is in those that are open", () => {
    const entries = [file("b"), directory("z"), file("z/one"), file("a"), directory("z/deep"), file("z/deep/two")];
    expect(treeRows(entries, new Set(["z"])).map((each) => `${each.depth}${each.name}`)).toEqual(["0z", "1deep", "1one", "0a", "0b"]);
  });

  it("has the directories that nobody told of", () => {
    expect(treeRows([file("x/y/z")], new Set(["x", "x/y"])).map((each) => each.name)).toEqual(["x", "y", "z"]);
  });
});

describe("changes of a file", () => {
  it("are found also in bursts, newest first", () => {
    const at = (sequence: number, type: string, data: Record<string, unknown>) => rowOf(sequence, { id: "", source: "", type, time: "", sandboxid: "sb", data });
    const rows = [
      at(1, "file.created", { path: "/w/a", facts: { size: 1, diff: "d" } }),
      at(2, "file.batch", { changes: [{ action: "modified", path: "/w/b" }, { action: "modified", path: "/w/a", facts: { size: 2 } }] }),
      at(3, "file.moved", { path: "/w/c", moved_from: "/w/a" }),
    ];
    expect(changesOf(rows, "/w/a").map((each) => [each.sequence, each.action])).toEqual([[3, "moved"], [2, "modified"], [1, "created"]]);
  });
});
