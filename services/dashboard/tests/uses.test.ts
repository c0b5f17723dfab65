import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { UsesStore } from "../src/state/uses";

describe("what sandboxes use", () => {
  let asked: string[];

  beforeEach(() => {
    vi.useFakeTimers();
    asked = [];
    vi.stubGlobal("document", { hidden: false });
    vi.stubGlobal("location", { origin: "http://host:1" });
    vi.stubGlobal("fetch", (url: string) => {
      asked.push(/sandboxes\/([^/]+)\/metrics/.exec(String(url))?.[1] ?? "?");
      return Promise.resolve(new Response(JSON.stringify({ current: null, recent: [] })));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("is asked for of those that can be seen, wherever they are in the list", async () => {
    const uses = new UsesStore();
    const ends = Array.from({ length: 40 }, (_, index) => uses.watch(`first-${index}`));
    await vi.advanceTimersByTimeAsync(1000);
    expect(new Set(asked).size).toBe(40);
    ends.forEach((end) => end());
    uses.watch("far-down");
    asked = [];
    await vi.advanceTimersByTimeAsync(20_000);
    expect(new Set(asked)).toEqual(new Set(["far-down"]));
    expect(uses.uses.value.has("far-down")).toBe(true);
    uses.close();
  });

  it("is asked for once where two rows show it, and until the last of them is gone", async () => {
    const uses = new UsesStore();
    const [one, other] = [uses.watch("sb"), uses.watch("sb")];
    one();
    await vi.advanceTimersByTimeAsync(600);
    expect(asked).toEqual(["sb"]);
    other();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(asked).toEqual(["sb"]);
    uses.close();
  });
});
