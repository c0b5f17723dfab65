/** What an agent thought, said and did, and what people and the guardian said to it: a fold over the events. */

import { list, number, object, text, texts, type Row } from "./row";
import { commandLine, exitWords, subjectOf } from "./words";

export type Who = "agent" | "user" | "guardian" | "system";

interface Told {
  /** Where it begins in the log: also its name. */
  sequence: number;
  time: number;
}

export interface Said extends Told {
  kind: "said";
  who: Who;
  thinking: boolean;
  text: string;
  partial: boolean;
  /** Of whom it is, where that is known. */
  by: string;
  label: string;
}

export interface Call extends Told {
  kind: "call";
  call: string;
  tool: string;
  subject: string;
  input: Record<string, unknown>;
  within: string | null;
  leave: "none" | "asked" | "approved" | "rejected";
  leaveBy: string;
  leaveReason: string;
  approval: string;
  result: { ok: boolean; output: string; ms: number | null; sequence: number; cut: boolean } | null;
}

export interface Changed extends Told {
  kind: "changed";
  action: string;
  path: string;
  diff: string | null;
  size: number | null;
}

export interface Ran extends Told {
  kind: "ran";
  exec: string;
  line: string;
  outcome: string | null;
  ok: boolean | null;
}

export interface Note extends Told {
  kind: "note";
  tone: "plain" | "good" | "bad" | "warn";
  who: Who;
  text: string;
}

export type Item = Said | Call | Changed | Ran | Note;

/** Feed it the events of one sandbox in order. Items are replaced when they change, never changed in place. */
export class Story {
  items: Item[] = [];
  private readonly said = new Map<string, number>();
  private readonly calls = new Map<string, number>();
  private readonly approvals = new Map<string, number>();
  private readonly commands = new Map<string, number>();
  private readonly processes = new Set<string>();

  feed(row: Row): boolean {
    const before = this.items.length;
    const handled = this.take(row);
    return handled || this.items.length !== before;
  }

  private take(row: Row): boolean {
    const { data } = row;
    switch (row.type) {
      case "agent.started":
        return this.say(row, "user", text(data, "prompt"), `asked ${text(data, "runtime")}`);
      case "agent.attached":
        this.processes.add(text(data, "process"));
        this.forget(text(data, "process"));
        return true;
      case "agent.message":
      case "agent.thinking":
        return this.stream(row, row.type === "agent.thinking");
      case "agent.tool_use":
        return this.use(row);
      case "agent.tool_result":
        return this.result(row);
      case "agent.approval_requested":
        return this.asked(row);
      case "agent.approved":
        return this.answered(row, "approved");
      case "agent.rejected":
        return this.answered(row, "rejected");
      case "user.message":
        return this.say(row, whoOf(text(data, "by")), text(data, "text"), "says");
      case "user.guidance":
        return this.say(row, whoOf(text(data, "by")), text(data, "text"), "guides");
      case "user.interrupt":
        return this.note(row, "warn", `interrupt: ${text(data, "reason")}`, whoOf(text(data, "by")));
      case "command.started":
        return this.started(row);
      default:
        return this.ended(row) || this.changes(row) || this.others(row);
    }
  }

  private others(row: Row): boolean {
    const { data } = row;
    const reason = text(data, "reason");
    switch (row.type) {
      case "agent.interrupted":
        return this.note(row, "warn", `interrupted: ${reason}`);
      case "agent.paused":
        return this.note(row, "warn", reason ? `paused: ${reason}` : "paused");
      case "agent.resumed":
        return this.note(row, "good", "resumed");
      case "agent.waiting":
        return this.note(row, "plain", reason ? `waits: ${reason}` : "waits for the next message");
      case "agent.completed":
        return this.note(row, reason === "done" ? "good" : "warn", `ended: ${reason}`);
      case "agent.error":
        return this.note(row, "bad", `${data["final"] === false ? "trouble" : "failed"}: ${text(object(data, "failure"), "message")}`);
      case "guardian.intervention":
      case "guardian.escalated":
        return this.note(row, "warn", `${text(data, "rule")}: ${text(data, "text") || reason}`, "guardian");
      case "command.rejected":
        return this.note(row, "bad", `a command never ran: ${text(object(data, "failure"), "message")}`);
      case "health.died":
        return this.note(row, "bad", `the sandbox died: ${text(data, "cause")} ${text(data, "detail")}`);
      case "health.limit_exceeded":
        return this.note(row, "warn", `over its limit of ${text(data, "limit")}: ${text(data, "action")}`);
      default:
        return this.moved(row) || this.refused(row);
    }
  }

  /** What became of the sandbox itself. */
  private moved(row: Row): boolean {
    const tone = MOVES[row.type];
    if (tone === undefined) return false;
    const why = text(object(row.data, "failure"), "message") || text(row.data, "reason");
    const by = text(row.data, "by").replace(/^gateway\//, "");
    const words = `the sandbox ${row.type === "sandbox.failed" ? "failed" : `was ${row.type.slice("sandbox.".length)}`}`;
    return this.note(row, tone, `${words}${by ? ` by ${by}` : ""}${why ? `: ${why}` : ""}`);
  }

  /** An order that nobody could obey. */
  private refused(row: Row): boolean {
    if (!row.type.startsWith("dead_letter.")) return false;
    return this.note(row, "bad", `an order was refused: ${text(object(row.data, "reason"), "message")}`);
  }

  private push(item: Item): number {
    this.items.push(item);
    return this.items.length - 1;
  }

  private note(row: Row, tone: Note["tone"], words: string, who: Who = "system"): boolean {
    this.push({ kind: "note", sequence: row.sequence, time: row.time, tone, who, text: words });
    return true;
  }

  private say(row: Row, who: Who, words: string, label: string): boolean {
    const by = text(row.data, "by");
    this.push({ kind: "said", sequence: row.sequence, time: row.time, who, thinking: false, text: words, partial: false, by, label });
    return true;
  }

  /** Parts grow one item, which the whole then takes the place of. */
  private stream(row: Row, thinking: boolean): boolean {
    const { data } = row;
    const message = text(data, "message");
    const key = `${text(data, "run")} ${thinking} ${message}`;
    const at = message ? this.said.get(key) : undefined;
    const known = at === undefined ? undefined : (this.items[at] as Said);
    const partial = data["partial"] === true;
    const before = known && partial ? [...known.text].slice(0, number(data, "offset") ?? 0).join("") : "";
    const item: Said = {
      kind: "said", sequence: known?.sequence ?? row.sequence, time: known?.time ?? row.time,
      who: "agent", thinking, text: before + text(data, "text"), partial, by: "", label: "",
    };
    if (at === undefined) {
      const index = this.push(item);
      if (message && partial) this.said.set(key, index);
    } else {
      this.items[at] = item;
      if (!partial) this.said.delete(key);
    }
    return true;
  }

  private use(row: Row): boolean {
    const { data } = row;
    const call = text(data, "call");
    const known = this.calls.get(call);
    if (known !== undefined) return this.change<Call>(known, { tool: text(data, "tool"), input: object(data, "input") });
    this.calls.set(call, this.push(newCall(row, call, text(data, "tool"), object(data, "input"))));
    return true;
  }

  private result(row: Row): boolean {
    const { data } = row;
    const at = this.calls.get(text(data, "call"));
    if (at === undefined) return false;
    const output = text(data, "output");
    const cut = row.cut || data["truncated"] === true;
    const result = { ok: data["ok"] === true, output, ms: number(data, "duration_ms"), sequence: row.sequence, cut };
    return this.change<Call>(at, { result });
  }

  private asked(row: Row): boolean {
    const { data } = row;
    const call = text(data, "call") || text(data, "approval");
    let at = this.calls.get(call);
    if (at === undefined) {
      at = this.push(newCall(row, call, text(data, "tool"), object(data, "input")));
      this.calls.set(call, at);
    }
    this.approvals.set(text(data, "approval"), at);
    return this.change<Call>(at, { leave: "asked", leaveReason: text(data, "reason"), approval: text(data, "approval") });
  }

  private answered(row: Row, leave: "approved" | "rejected"): boolean {
    const { data } = row;
    const at = this.approvals.get(text(data, "approval")) ?? this.calls.get(text(data, "call"));
    const reason = text(data, "reason") || (data["expired"] === true ? "nobody answered in time" : "");
    if (at === undefined) return this.note(row, leave === "approved" ? "good" : "bad", `${leave} ${text(data, "tool")} ${reason}`);
    return this.change<Call>(at, { leave, leaveBy: text(data, "by"), leaveReason: reason });
  }

  private started(row: Row): boolean {
    const { data } = row;
    const exec = text(data, "exec");
    if (text(data, "asker") === "agent" || this.processes.has(exec)) return false;
    const line = commandLine(texts(data, "argv"));
    this.commands.set(exec, this.push({ kind: "ran", sequence: row.sequence, time: row.time, exec, line, outcome: null, ok: null }));
    return true;
  }

  private ended(row: Row): boolean {
    if (!/^command\.(completed|timed_out|cancelled|rejected|lost)$/.test(row.type)) return false;
    const at = this.commands.get(text(row.data, "exec"));
    if (at === undefined) return false;
    const exit = exitWords(object(row.data, "exit"));
    const kind = row.type.slice("command.".length).replace("_", " ");
    const outcome = kind === "completed" ? exit : [kind, exit].filter(Boolean).join(", ");
    return this.change<Ran>(at, { outcome, ok: outcome === "exit 0" });
  }

  /** The process of a run is told by the run, not as a command. */
  private forget(exec: string): void {
    const at = this.commands.get(exec);
    if (at === undefined) return;
    this.commands.delete(exec);
    this.items.splice(at, 1);
    for (const index of [this.said, this.calls, this.approvals, this.commands]) {
      for (const [key, place] of index) if (place > at) index.set(key, place - 1);
    }
  }

  private changes(row: Row): boolean {
    if (!/^file\.(created|modified|deleted|moved|batch)$/.test(row.type)) return false;
    const one = { ...row.data, action: row.type.slice("file.".length) };
    const told = row.type === "file.batch" ? list(row.data, "changes") : [one];
    // A directory comes and goes with what is in it.
    const changes = told.filter((each) => text(object(each, "facts"), "kind") !== "directory");
    for (const change of changes.slice(0, MOST_CHANGES)) this.push(changed(row, change));
    if (changes.length > MOST_CHANGES) this.note(row, "plain", `${changes.length - MOST_CHANGES} more files changed`);
    return true;
  }

  private change<T extends Item>(at: number, part: Partial<T>): boolean {
    this.items[at] = { ...(this.items[at] as T), ...part };
    return true;
  }
}

const MOST_CHANGES = 12;

const MOVES: Record<string, Note["tone"]> = {
  "sandbox.paused": "warn", "sandbox.resumed": "good", "sandbox.stopped": "warn", "sandbox.failed": "bad",
  "sandbox.recovered": "good", "sandbox.removed": "warn",
};

function newCall(row: Row, call: string, tool: string, input: Record<string, unknown>): Call {
  return {
    kind: "call", sequence: row.sequence, time: row.time, call, tool, subject: subjectOf(input), input,
    within: text(row.data, "parent") || null, leave: "none", leaveBy: "", leaveReason: "", approval: "", result: null,
  };
}

function changed(row: Row, change: Record<string, unknown>): Changed {
  const facts = object(change, "facts");
  const from = text(change, "moved_from");
  const path = from ? `${from} → ${text(change, "path")}` : text(change, "path");
  return {
    kind: "changed", sequence: row.sequence, time: row.time, action: text(change, "action"), path,
    diff: text(facts, "diff") || null, size: number(facts, "size"),
  };
}

function whoOf(by: string): Who {
  if (by.split("/")[0] === "guardian") return "guardian";
  return by === "policy" ? "system" : "user";
}

/** The story up to a number of rows. */
export function storyOf(rows: Iterable<Row>): Story {
  const story = new Story();
  for (const row of rows) story.feed(row);
  return story;
}
