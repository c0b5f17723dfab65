import { describe, expect, it } from "vitest";
import { countDiff, foldDiff, parseDiff } from "../src/story/diff";

const DIFF = "--- a/x\n+++ b/x\n@@ -3,3 +3,4 @@\n one\n-two\n+zwei\n+drei\n three\n\\ No newline at end of file\n";

describe("a diff", () => {
  it("is lines with their numbers before and after", () => {
    expect(parseDiff(DIFF)).toEqual([
      { kind: "hunk", text: "@@ -3,3 +3,4 @@", old: null, new: null },
      { kind: "context", text: "one", old: 3, new: 3 },
      { kind: "removed", text: "two", old: 4, new: null },
      { kind: "added", text: "zwei", old: null, new: 4 },
      { kind: "added", text: "drei", old: null, new: 5 },
      { kind: "context", text: "three", old: 5, new: 6 },
    ]);
    expect(countDiff(DIFF)).toEqual({ added: 2, removed: 1 });
  });

  it("takes a line that looks like a header for what it is", () => {
    const [, removed] = parseDiff("--- a\n+++ b\n@@ -1 +0,0 @@\n--- not a header\n");
    expect(removed).toMatchObject({ kind: "removed", text: "-- not a header" });
  });

  it("is folded where it is long, but not for the sake of a few lines", () => {
    const lines = parseDiff(`@@ -0,0 +1,99 @@\n${"+x\n".repeat(99)}`);
    expect(foldDiff(lines, 20)).toMatchObject({ folded: 80 });
    expect(foldDiff(lines, 90).folded).toBe(0);
  });

  it("of nothing is nothing", () => {
    expect(parseDiff("")).toEqual([]);
    expect(parseDiff("Binary files differ")).toEqual([]);
  });
});
