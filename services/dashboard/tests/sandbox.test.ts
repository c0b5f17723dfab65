import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Lack } from "../src/api/types";
import type { SandboxStore as Store } from "../src/state/sandbox";

let say: (frame: object) => void;
let head: number;
let SandboxStore: typeof Store;

function event(sequence: number): object {
  return { id: `e-${sequence}`, source: "", type: "agent.message", time: "2026-01-01T00:00:00Z", sandboxid: "sb", data: {} };
}

beforeEach(async () => {
  vi.useFakeTimers();
  head = 9;
  vi.stubGlobal("location", { origin: "http://host:1", hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("removeEventListener", () => undefined);
  vi.stubGlobal("requestAnimationFrame", (work: () => void) => work());
  vi.stubGlobal("fetch", () => {
    const events = Array.from({ length: head }, (_, index) => ({ sequence: index + 1, event: event(index + 1) }));
    return Promise.resolve(new Response(JSON.stringify({ sandbox: { sandbox: "sb", first_sequence: 1 }, events, lacking: [], head_sequence: head, state: { applied_sequence: head } })));
  });
  vi.stubGlobal("WebSocket", class {
    onmessage: ((message: { data: string }) => void) | null = null;
    constructor() {
      say = (frame) => this.onmessage?.({ data: JSON.stringify(frame) });
    }
    close(): void {}
  });
  // It looks at the address of the page as it is loaded.
  ({ SandboxStore } = await import("../src/state/sandbox"));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("has to be opened anew once the log has lost its end, and is told what that was", async () => {
  const cuts: Lack[] = [];
  const before = new SandboxStore("sb", [], (lost) => cuts.push(lost));
  await vi.advanceTimersByTimeAsync(10);
  expect(before.record.last?.sequence).toBe(9);
  say({ type: "connected", head_sequence: 6 });
  say({ type: "error", code: "LOG_GAP", message: "", first_sequence: 7, last_sequence: 9 });
  expect(cuts).toEqual([{ first_sequence: 7, last_sequence: 9 }]);
  before.close();
  head = 6;
  const after = new SandboxStore("sb", cuts);
  await vi.advanceTimersByTimeAsync(10);
  say({ type: "connected", head_sequence: 6 });
  say({ type: "event", sequence: 7, event_type: "agent.message", sandbox_id: "sb", timestamp: "", data: event(7) });
  expect([...after.record.rows()].map((row) => row.sequence)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect(after.lacking.value).toEqual(["events 7 to 9"]);
  after.close();
});
