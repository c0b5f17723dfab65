import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { waitMs } from "../src/live/backoff";
import { Feed } from "../src/live/feed";
import type { EventFrame } from "../src/live/frames";

class FakeSocket {
  readyState = 1;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  readonly sent: string[] = [];

  constructor(readonly url: string) {}

  say(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  event(sequence: number): void {
    this.say({ type: "event", sequence, event_type: "command.output", sandbox_id: "sb", timestamp: "", data: {} });
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.readyState = 3;
    this.onclose?.();
  }
}

describe("a feed", () => {
  let sockets: FakeSocket[];
  let seen: number[];
  let cuts: number[];
  const open = (from: number | null) =>
    new Feed({
      path: "/ws/sandboxes/sb",
      from,
      onEvent: (frame: EventFrame) => seen.push(frame.sequence),
      onCut: (lost) => cuts.push(lost.first_sequence),
      open: (url) => {
        sockets.push(new FakeSocket(url));
        return sockets.at(-1) as unknown as WebSocket;
      },
    });
  const last = () => sockets.at(-1) as FakeSocket;

  beforeEach(() => {
    vi.useFakeTimers();
    vi.stubGlobal("location", { origin: "http://host:1" });
    vi.stubGlobal("addEventListener", () => undefined);
    vi.stubGlobal("removeEventListener", () => undefined);
    sockets = [];
    seen = [];
    cuts = [];
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("comes back behind the last event that it saw", () => {
    open(5);
    last().say({ type: "connected", head_sequence: 9 });
    [5, 6, 9].forEach((each) => last().event(each));
    last().close();
    vi.advanceTimersByTime(10_000);
    expect(last().url).toBe("ws://host:1/ws/sandboxes/sb?from=10");
    expect(sockets).toHaveLength(2);
  });

  it("takes no event twice, whatever is sent", () => {
    open(5);
    [5, 6, 6, 5, 7].forEach((each) => last().event(each));
    expect(seen).toEqual([5, 6, 7]);
  });

  it("goes on with the sequences that a log gives again once it has lost its end", () => {
    open(5);
    [5, 6, 9].forEach((each) => last().event(each));
    last().close();
    vi.advanceTimersByTime(10_000);
    last().say({ type: "connected", head_sequence: 6 });
    last().say({ type: "error", code: "LOG_GAP", message: "", first_sequence: 7, last_sequence: 9 });
    [7, 8].forEach((each) => last().event(each));
    expect([seen, cuts]).toEqual([[5, 6, 9, 7, 8], [7]]);
    last().close();
    vi.advanceTimersByTime(10_000);
    expect(last().url).toContain("from=9");
  });

  it("takes what was lost in the middle for no lost end", () => {
    open(5);
    [5, 9].forEach((each) => last().event(each));
    for (const [first, end] of [[6, 7], [12, 13], [3, 20]]) last().say({ type: "error", code: "LOG_GAP", message: "", first_sequence: first, last_sequence: end });
    [6, 9, 10].forEach((each) => last().event(each));
    expect([seen, cuts]).toEqual([[5, 9, 10], []]);
  });

  it("knows its place from the greeting where nothing happened before the line broke", () => {
    const feed = open(null);
    expect(last().url).toBe("ws://host:1/ws/sandboxes/sb");
    last().say({ type: "connected", head_sequence: 41 });
    expect(feed.link.value).toBe("open");
    last().close();
    expect(feed.link.value).toBe("broken");
    vi.advanceTimersByTime(10_000);
    expect(last().url).toContain("from=42");
  });

  it("hears nothing more from a line that it has given up", () => {
    open(1);
    const first = last();
    first.close();
    vi.advanceTimersByTime(10_000);
    first.event(1);
    expect(seen).toEqual([]);
  });

  it("says that nothing went out while the line is broken", () => {
    const feed = open(1);
    expect(feed.send({ type: "ping" })).toBe(true);
    last().readyState = 3;
    expect(feed.send({ type: "ping" })).toBe(false);
  });

  it("takes a silent line for a broken one", () => {
    const feed = open(1);
    last().say({ type: "connected", head_sequence: 1 });
    vi.advanceTimersByTime(80_000);
    expect(sockets.length).toBeGreaterThan(1);
    expect(feed.link.value).not.toBe("open");
  });

  it("stays closed", () => {
    const feed = open(1);
    feed.close();
    vi.advanceTimersByTime(100_000);
    expect(sockets).toHaveLength(1);
  });

  it("waits longer each time, and never for ever", () => {
    expect(waitMs(0, 1)).toBe(250);
    expect(waitMs(3, 1)).toBe(2000);
    expect(waitMs(50, 1)).toBe(8000);
    expect(waitMs(50, 0)).toBe(4000);
  });
});
