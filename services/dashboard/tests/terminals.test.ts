import { describe, expect, it } from "vitest";
import type { SandboxState } from "../src/api/types";
import { tabsOf, withKnown } from "../src/state/terminals";
import { rowOf, type Row } from "../src/story/row";

function row(sequence: number, type: string, data: Record<string, unknown>): Row {
  return rowOf(sequence, { id: "", source: "", type, time: "2026-01-01T00:00:00Z", sandboxid: "sb", data });
}

function started(sequence: number, exec: string): Row {
  return row(sequence, "command.started", { exec, argv: ["make", exec] });
}

function known(exec: string, first_sequence: number, more: object = {}): object {
  return { exec, argv: ["make", exec], first_sequence, pty: false, outcome: null, exit: null, totals: { stdin: 0, stdout: 0, stderr: 0, pty: 0 }, ...more };
}

function state(running: object[], recent: object[]): SandboxState {
  const byExec = Object.fromEntries(running.map((each) => [(each as { exec: string }).exec, each]));
  return { running: byExec, recent, runs: [] } as unknown as SandboxState;
}

describe("terminals", () => {
  it("are the newest first, and an agent's own program is last", () => {
    const rows = [started(1, "a"), started(2, "b"), row(3, "command.completed", { exec: "a", exit: { code: 2 } }), started(4, "c")];
    const tabs = tabsOf(rows, new Set(["c"]));
    expect(tabs.map((each) => each.exec)).toEqual(["b", "a", "c"]);
    expect(tabs[1]).toMatchObject({ outcome: "exit 2", ok: false, line: "make a" });
  });

  it("are there before the past was read, those that run and those that ended", () => {
    const ended = known("ended", 70, { outcome: "completed", exit: { code: 0, signal: null } });
    const tabs = withKnown(tabsOf([started(1, "a")], new Set()), state([known("runs", 90)], [ended]), new Set());
    expect(tabs.map((each) => each.exec)).toEqual(["runs", "ended", "a"]);
    expect(tabs[0]).toMatchObject({ outcome: null, first: 90 });
    expect(tabs[1]).toMatchObject({ outcome: "exit 0", ok: true });
  });

  it("are not there twice, and an agent's own program stays last", () => {
    const seen = tabsOf([started(80, "runs")], new Set());
    const tabs = withKnown(seen, state([known("runs", 80), known("agent", 85)], []), new Set(["agent"]));
    expect(tabs.map((each) => each.exec)).toEqual(["runs", "agent"]);
  });

  it("of a size that only the past knows wait for it", () => {
    expect(withKnown([], state([known("shell", 5, { pty: true })], []), new Set())).toEqual([]);
  });
});
