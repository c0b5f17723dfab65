import { describe, expect, it } from "vitest";
import { offsetsOf, rangeOf, rowAt } from "../src/ui/window";

describe("a windowed list", () => {
  it("shows a screenful of a hundred thousand rows", () => {
    const offsets = offsetsOf(100_000, () => 30);
    expect(offsets[100_000]).toBe(3_000_000);
    expect(rangeOf(offsets, 1_500_000, 600, 0)).toEqual({ first: 50_000, end: 50_021 });
  });

  it("finds rows of different heights", () => {
    const offsets = offsetsOf(4, (index) => [10, 100, 10, 50][index] ?? 0);
    expect([0, 9, 10, 109, 110, 120, 169].map((top) => rowAt(offsets, top))).toEqual([0, 0, 1, 1, 2, 3, 3]);
  });

  it("stays within the list, above it and below it", () => {
    const offsets = offsetsOf(3, () => 20);
    expect(rangeOf(offsets, -500, 10, 0)).toEqual({ first: 0, end: 1 });
    expect(rangeOf(offsets, 10_000, 100, 400)).toEqual({ first: 2, end: 3 });
    expect(rangeOf(offsetsOf(0, () => 20), 0, 100, 400)).toEqual({ first: 0, end: 0 });
  });
});
