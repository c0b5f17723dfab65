/** The commands of a sandbox as tabs, newest first, as far as they were begun at the moment that is looked at. */

import { computed, type ReadonlySignal } from "@preact/signals";
import type { CommandState, SandboxState } from "../api/types";
import { number, object, text, texts, type Row } from "../story/row";
import { commandLine, exitWords } from "../story/words";
import type { SandboxStore } from "./sandbox";

export interface CommandTab {
  exec: string;
  line: string;
  pty: boolean;
  /** That its terminal began with. */
  size: { rows: number; cols: number } | null;
  first: number;
  /** How it ended; null while it runs. */
  outcome: string | null;
  ok: boolean;
  /** The program of an agent: what goes through it is its protocol. */
  agent: boolean;
}

const ENDS = /^command\.(completed|timed_out|cancelled|rejected|lost)$/;

export function tabsOf(rows: Iterable<Row>, processes: ReadonlySet<string>): CommandTab[] {
  const tabs = new Map<string, CommandTab>();
  for (const row of rows) {
    const exec = text(row.data, "exec");
    if (row.type === "command.started") tabs.set(exec, begun(row, exec, processes.has(exec)));
    const tab = tabs.get(exec);
    if (tab !== undefined && ENDS.test(row.type)) tabs.set(exec, { ...tab, ...ended(row) });
  }
  return [...tabs.values()].reverse().sort((one, other) => Number(one.agent) - Number(other.agent));
}

function begun(row: Row, exec: string, agent: boolean): CommandTab {
  const given = object(row.data, "pty");
  const [rows, cols] = [number(given, "rows"), number(given, "cols")];
  const size = rows === null || cols === null ? null : { rows, cols };
  return { exec, line: commandLine(texts(row.data, "argv")), pty: size !== null, size, first: row.sequence, outcome: null, ok: false, agent };
}

function ended(row: Row): { outcome: string; ok: boolean } {
  const exit = exitWords(object(row.data, "exit"));
  const kind = row.type.slice("command.".length).replace("_", " ");
  return { outcome: kind === "completed" ? exit : kind, ok: kind === "completed" && exit === "exit 0" };
}

/** With those that only the state tells of yet, while the past is still being read: nobody waits for it to see the newest. */
export function withKnown(tabs: CommandTab[], state: SandboxState, processes: ReadonlySet<string>): CommandTab[] {
  const told = new Set(tabs.map((each) => each.exec));
  // How large a terminal was is in its event alone.
  const known = [...Object.values(state.running), ...state.recent].filter((each) => !told.has(each.exec) && !each.pty && each.first_sequence > 0);
  const all = [...tabs, ...known.map((each) => tabOf(each, processes.has(each.exec)))];
  return all.sort((one, other) => Number(one.agent) - Number(other.agent) || other.first - one.first);
}

function tabOf({ exec, argv, first_sequence, outcome, exit }: CommandState, agent: boolean): CommandTab {
  const words = outcome === null ? null : outcome === "completed" ? exitWords(exit) : outcome.replace("_", " ");
  return { exec, line: commandLine(argv), pty: false, size: null, first: first_sequence, outcome: words, ok: words === "exit 0", agent };
}

export function terminalsOf(store: SandboxStore): ReadonlySignal<CommandTab[]> {
  return computed(() => {
    void store.record.version.value;
    const at = store.moment.value;
    const commands = store.record.family("command");
    const agents = store.record.family("agent");
    const processes = new Set<string>();
    for (const row of agents.rows()) if (row.type === "agent.attached") processes.add(text(row.data, "process"));
    const tabs = tabsOf(commands.rows(0, commands.countTo(at)), processes);
    const state = store.state.value;
    if (at !== null || state === null || store.loaded.value.done) return tabs;
    for (const run of state.runs) if (run.process) processes.add(run.process);
    return withKnown(tabs, state, processes);
  });
}
