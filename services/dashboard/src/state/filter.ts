/** Which of the sandboxes are wanted. */

import type { SandboxState, Status } from "../api/types";

export interface Filter {
  status: Status | "all" | "asking";
  words: string;
}

export function openRun(state: SandboxState) {
  return state.runs.findLast((each) => each.status !== "completed" && each.status !== "failed");
}

/** How many questions wait for an answer. */
export function questions(state: SandboxState): number {
  const asked = state.runs.reduce((sum, run) => sum + run.pending.filter((each) => !each.answered).length + run.pending_more, 0);
  return asked + state.approvals.pending.length;
}

export function matches(state: SandboxState, filter: Filter): boolean {
  if (filter.status === "asking" ? questions(state) === 0 : filter.status !== "all" && state.status !== filter.status) return false;
  const wanted = filter.words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return true;
  const run = state.runs.at(-1);
  const { agent_id, project_id, task_id, labels } = state.spec;
  const told = [state.sandbox, state.status, state.health, state.isolation, state.node, agent_id, project_id, task_id, run?.runtime, run?.model, run?.prompt];
  const text = [...told, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`)].join(" ").toLowerCase();
  return wanted.every((word) => text.includes(word));
}

/** Who asks comes first, then what lives, then the newest. */
export function order(one: SandboxState, other: SandboxState): number {
  return (
    Number(questions(other) > 0) - Number(questions(one) > 0) ||
    Number(alive(other)) - Number(alive(one)) ||
    Date.parse(other.created_at) - Date.parse(one.created_at)
  );
}

export function alive(state: SandboxState): boolean {
  return ["creating", "running", "paused"].includes(state.status);
}
