import { describe, expect, it } from "vitest";
import { Heights } from "../src/ui/heights";

function list(heights: Heights): number[] {
  return [...heights.offsets];
}

describe("the heights of rows", () => {
  it("are taken to be the same until they are seen", () => {
    const heights = new Heights(10);
    heights.resize(4);
    expect(list(heights)).toEqual([0, 10, 20, 30, 40]);
    expect(heights.measure([{ index: 1, name: "b", height: 25 }])).toBe(true);
    expect(heights.measure([{ index: 1, name: "b", height: 25 }, { index: 2, name: "c", height: 10 }])).toBe(false);
    expect(list(heights)).toEqual([0, 10, 35, 45, 55]);
  });

  it("stay when rows are added, and when some are not shown for a while", () => {
    const heights = new Heights(10);
    heights.resize(3);
    heights.measure([{ index: 2, name: "c", height: 50 }]);
    heights.resize(5);
    expect(list(heights)).toEqual([0, 10, 20, 70, 80, 90]);
    heights.resize(1);
    expect(list(heights)).toEqual([0, 10]);
    heights.resize(4);
    expect(list(heights)).toEqual([0, 10, 20, 70, 80]);
  });

  it("go with their rows to other places", () => {
    const heights = new Heights(10);
    heights.resize(3);
    heights.measure([{ index: 0, name: "a", height: 50 }, { index: 1, name: "b", height: 10 }]);
    heights.resize(4);
    const names = ["z", "a", "b", "c"];
    expect(heights.place(1, 3, (index) => names[index] ?? "")).toBe(true);
    expect(list(heights)).toEqual([0, 10, 60, 70, 80]);
    expect(heights.place(0, 4, (index) => names[index] ?? "")).toBe(false);
  });

  it("cost little though there are a hundred thousand of them", () => {
    const heights = new Heights(72);
    heights.resize(100_000);
    let named = 0;
    const nameOf = (index: number) => String((named += 1) && index);
    for (let top = 0; top < 1000; top += 10) {
      heights.place(top, top + 10, nameOf);
      heights.measure(Array.from({ length: 10 }, (_, at) => ({ index: top + at, name: String(top + at), height: 90 })));
    }
    expect(named).toBe(1000);
    expect(heights.offsets[100_000]).toBe(1000 * 90 + 99_000 * 72);
  });
});
