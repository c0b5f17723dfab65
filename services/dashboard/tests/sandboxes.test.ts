import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { SandboxesStore } from "../src/state/sandboxes";

let answers: ((status: string) => void)[];
let event: () => void;

beforeEach(() => {
  vi.useFakeTimers();
  answers = [];
  vi.stubGlobal("location", { origin: "http://host:1", hash: "" });
  vi.stubGlobal("addEventListener", () => undefined);
  vi.stubGlobal("removeEventListener", () => undefined);
  vi.stubGlobal("fetch", () => new Promise((done) => {
    answers.push((status) => done(new Response(JSON.stringify({ sandboxes: [{ sandbox: "sb", status }], next: null }))));
  }));
  vi.stubGlobal("WebSocket", class {
    onmessage: ((message: { data: string }) => void) | null = null;
    constructor() {
      event = () => this.onmessage?.({ data: JSON.stringify({ type: "event", sequence: 1, event_type: "sandbox.stopped", sandbox_id: "sb", timestamp: "", data: {} }) });
    }
    close(): void {}
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("is read again for what happened while it was read", async () => {
  const store = new SandboxesStore();
  await vi.advanceTimersByTimeAsync(10);
  expect(answers.length).toBe(1);
  event();
  await vi.advanceTimersByTimeAsync(5000);
  expect(answers.length).toBe(1);
  answers[0]?.("running");
  await vi.advanceTimersByTimeAsync(20_000);
  expect(answers.length).toBe(2);
  answers[1]?.("stopped");
  await vi.advanceTimersByTimeAsync(20_000);
  expect(store.all.value?.[0]?.status).toBe("stopped");
  expect(answers.length).toBe(2);
  store.close();
});

it("is not read all the time where reading it takes long", async () => {
  const store = new SandboxesStore();
  await vi.advanceTimersByTimeAsync(1000);
  answers[0]?.("running");
  await vi.advanceTimersByTimeAsync(1);
  event();
  await vi.advanceTimersByTimeAsync(2000);
  expect(answers.length).toBe(1);
  await vi.advanceTimersByTimeAsync(2000);
  expect(answers.length).toBe(2);
  store.close();
});
