import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Screen } from "../src/api/types";
import type { EventFrame } from "../src/live/frames";
import { Reel } from "../src/state/reel";
import type { SandboxStore } from "../src/state/sandbox";
import type { CommandTab } from "../src/state/terminals";
import { Projector } from "../src/views/sandbox/projector";

const MIB = 1 << 20;

/** Takes in what it is given when it is told to, as in a tab that nobody looks at. */
class FakeGlass {
  shown = "";
  pending = 0;
  most = 0;
  private queue: [number, () => void][] = [];

  write(data: string | Uint8Array): void {
    this.push(data.length, () => (this.shown += String(data)));
  }

  show(screen: Screen): void {
    this.push(0, () => (this.shown = screen.lines.join("")));
  }

  clear(): void {
    this.push(0, () => (this.shown = ""));
  }

  resize(): void {}

  after(work: () => void): void {
    this.push(0, work);
  }

  drain(): void {
    while (this.queue.length) {
      const [[size, work]] = this.queue.splice(0, 1) as [[number, () => void]];
      this.pending -= size;
      work();
    }
  }

  private push(size: number, work: () => void): void {
    this.pending += size;
    this.most = Math.max(this.most, this.pending);
    this.queue.push([size, work]);
  }
}

describe("a terminal", () => {
  let glass: FakeGlass;
  let log: string[];
  let asked: string[];
  let hear: (frame: EventFrame) => void;
  let held: (() => void)[] | null;
  const record = { last: { sequence: 1 } };
  const store = { id: "sb", state: { peek: () => null }, record, listen: (take: typeof hear) => { hear = take; return () => undefined; } };
  const tab = { exec: "e", first: 1, size: null } as CommandTab;

  function say(data: string): void {
    log.push(data);
    record.last.sequence += 1;
    const event = { id: "", source: "", type: "command.output", time: "", sandboxid: "sb", data: { exec: "e", data } };
    hear({ type: "event", sequence: record.last.sequence, event_type: event.type, sandbox_id: "sb", timestamp: "", data: event });
  }

  /** As the gateway has it, up to a sequence. */
  function screen(at: number): object {
    return { sequence: at, lines: log.slice(0, at - 1), scrollback: [] };
  }

  const settle = () => vi.advanceTimersByTimeAsync(1);
  const begun = async () => {
    const projector = new Projector(store as unknown as SandboxStore, tab, glass, () => undefined);
    await settle();
    glass.drain();
    return projector;
  };

  beforeEach(() => {
    vi.useFakeTimers();
    [glass, log, asked, held] = [new FakeGlass(), [], [], null];
    record.last.sequence = 1;
    vi.stubGlobal("fetch", (path: string) => {
      const at = Number(new URL(path, "http://host").searchParams.get("at"));
      if (!path.includes("/terminal")) return Promise.resolve(new Response(JSON.stringify({ events: [], next: 0, more: false })));
      asked.push(path);
      const answer = () => new Response(JSON.stringify(screen(at)));
      return held === null ? Promise.resolve(answer()) : new Promise((done) => held?.push(() => done(answer())));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("keeps a little of what is written, and of much nothing", () => {
    const reel = new Reel();
    for (let sequence = 1; !reel.full && sequence < 1000; sequence += 1) reel.add({ sequence, data: "x".repeat(10_000), resize: null });
    expect(reel.last).toBeLessThan(200);
    const letters = new Reel();
    for (let sequence = 1; !letters.full && sequence < 100_000; sequence += 1) letters.add({ sequence, data: "x", resize: null });
    expect(letters.last).toBeLessThan(20_000);
  });

  it("shows what comes, and any moment of it, without asking", async () => {
    const projector = await begun();
    "abc".split("").forEach(say);
    projector.show(3);
    glass.drain();
    expect(glass.shown).toBe("ab");
    say("d");
    projector.show(null);
    glass.drain();
    expect(glass.shown).toBe("abcd");
    expect(asked).toEqual([]);
  });

  it("of a command that writes much asks for a moment, and goes on live", async () => {
    const projector = await begun();
    for (const letter of "abcd") { say(letter.repeat(MIB)); glass.drain(); }
    expect(glass.shown === log.join("")).toBe(true);
    projector.show(2);
    await settle();
    glass.drain();
    expect(glass.shown === log[0]).toBe(true);
    say("e");
    projector.show(null);
    await settle();
    say("f");
    glass.drain();
    expect(glass.shown === log.join("")).toBe(true);
    expect(asked.length).toBe(2);
  });

  it("that takes nothing in is not given more and more, and has it all in the end, once", async () => {
    await begun();
    for (let part = 0; part < 12; part += 1) say(String(part % 10).repeat(MIB));
    expect(glass.most).toBeLessThan(6 * MIB);
    expect(asked).toEqual([]);
    glass.drain();
    await settle();
    say("the end");
    glass.drain();
    expect(asked.length).toBe(1);
    expect(glass.shown === log.join("")).toBe(true);
  });

  it("asks again where much was written while it waited for a screen", async () => {
    const projector = await begun();
    for (const letter of "ab") { say(letter.repeat(MIB)); glass.drain(); }
    held = [];
    projector.show(null);
    for (let part = 0; part < 12; part += 1) say(String(part % 10).repeat(MIB));
    held.shift()?.();
    await settle();
    glass.drain();
    expect(glass.shown === log.slice(0, 2).join("")).toBe(true);
    say("the end");
    held.shift()?.();
    await settle();
    glass.drain();
    expect(glass.shown === log.join("")).toBe(true);
  });

  it("is not taken in by a moment that was passed", async () => {
    const projector = await begun();
    for (const letter of "ab") { say(letter.repeat(MIB)); glass.drain(); }
    held = [];
    projector.show(2);
    projector.show(null);
    say("c");
    held.shift()?.();
    await settle();
    say("d");
    held.shift()?.();
    await settle();
    glass.drain();
    expect(glass.shown === log.join("")).toBe(true);
  });
});
