import { describe, expect, it } from "vitest";
import { rowOf, type Row } from "../src/story/row";
import { storyOf, type Call, type Note, type Said } from "../src/story/story";

let sequence = 0;
function row(type: string, data: Record<string, unknown>): Row {
  sequence += 1;
  return rowOf(sequence, { id: "", source: "", type, time: "2026-01-01T00:00:00Z", sandboxid: "sb", data: { run: "r", ...data } });
}

describe("a story", () => {
  it("grows one message from its parts, and the whole takes their place", () => {
    const parts = [
      row("agent.message", { message: "m", partial: true, text: "Hel", offset: 0 }),
      row("agent.message", { message: "m", partial: true, text: "lo", offset: 3 }),
    ];
    expect(storyOf(parts).items).toMatchObject([{ kind: "said", text: "Hello", partial: true }]);
    parts.push(row("agent.message", { message: "m", text: "Hello." }));
    const { items } = storyOf(parts);
    expect(items).toHaveLength(1);
    expect(items[0]).toMatchObject({ text: "Hello.", partial: false });
  });

  it("puts a question, its answer and the result into the call", () => {
    const { items } = storyOf([
      row("agent.tool_use", { call: "c", tool: "run", input: { command: "git push" } }),
      row("agent.approval_requested", { call: "c", approval: "a", tool: "run", reason: "it pushes" }),
      row("agent.approved", { approval: "a", by: "gateway/eve" }),
      row("agent.tool_result", { call: "c", ok: true, output: "pushed", duration_ms: 5 }),
    ]);
    expect(items).toHaveLength(1);
    expect(items[0] as Call).toMatchObject({ tool: "run", subject: "git push", leave: "approved", leaveBy: "gateway/eve", result: { ok: true, output: "pushed" } });
  });

  it("leaves the program of an agent out, and what the agent runs by its tools", () => {
    const { items } = storyOf([
      row("command.started", { exec: "p", argv: ["agent"], asker: "user" }),
      row("agent.attached", { process: "p" }),
      row("command.started", { exec: "t", argv: ["ls"], asker: "agent" }),
      row("command.started", { exec: "u", argv: ["sh", "-c", "make all"], asker: "user" }),
      row("command.completed", { exec: "u", exit: { code: 2, signal: null } }),
    ]);
    expect(items).toMatchObject([{ kind: "ran", line: "make all", outcome: "exit 2", ok: false }]);
  });

  it("tells what nobody could obey, what never ran, and what became of the sandbox", () => {
    const { items } = storyOf([
      row("sandbox.paused", { by: "gateway/eve" }),
      row("command.rejected", { exec: "e", failure: { message: "sandbox 'sb' is paused" } }),
      row("dead_letter.agent", { subject: "cloche.cmd.local.sb.agent.message", reason: { message: "no run is open" } }),
      row("sandbox.stopped", { reason: "idle", by: "" }),
      row("sandbox.failed", { failure: { message: "no attempts are left" } }),
    ]);
    expect(items.map((each) => (each as Note).text)).toEqual([
      "the sandbox was paused by eve", "a command never ran: sandbox 'sb' is paused", "an order was refused: no run is open",
      "the sandbox was stopped: idle", "the sandbox failed: no attempts are left",
    ]);
  });

  it("tells whoever spoke", () => {
    const { items } = storyOf([row("user.message", { text: "a", by: "gateway/eve" }), row("user.guidance", { text: "b", by: "guardian/loop" })]);
    expect((items as Said[]).map((each) => each.who)).toEqual(["user", "guardian"]);
  });

  it("shows the files of a burst, and counts what is too many", () => {
    const changes = Array.from({ length: 20 }, (_, index) => ({ action: "created", path: `/w/${index}`, facts: { size: 1, kind: "file" } }));
    const { items } = storyOf([row("file.batch", { changes })]);
    expect(items).toHaveLength(13);
    expect(items[12]).toMatchObject({ kind: "note", text: "8 more files changed" });
  });

  it("survives anything that a log can hold", () => {
    const strange = [null, 7, "x", [], {}, { a: [] }];
    const types = ["agent.message", "agent.tool_use", "agent.tool_result", "command.started", "file.batch", "file.created", "agent.approval_requested", "guardian.observed", "what.ever"];
    for (const type of types) {
      for (const value of strange) {
        const data = Object.fromEntries(["text", "call", "input", "argv", "changes", "facts", "exec", "path", "approval", "message", "offset"].map((key) => [key, value]));
        expect(() => storyOf([row(type, data)])).not.toThrow();
      }
    }
  });
});
