import { post } from "./http";
import { pathOf } from "./sandboxes";

/** What can be said to an agent, or about what its sandbox asks for. */
export type Said =
  | { type: "user.message"; text: string }
  | { type: "guidance"; text: string }
  | { type: "interrupt" }
  | { type: "pause" }
  | { type: "resume" }
  | { type: "stop" }
  | { type: "approve"; approval: string; remember?: boolean; reason?: string }
  | { type: "reject"; approval: string; reason?: string }
  | { type: "network.approve"; approval: string; remember?: boolean }
  | { type: "network.reject"; approval: string; remember?: boolean };

/** So long it is waited for: whoever is refused, because nobody listens any more, is told so at once. */
const WAIT_S = 5;

export async function say(sandbox: string, said: Said): Promise<void> {
  await post(`${pathOf(sandbox)}/events`, said, { wait: WAIT_S });
}

export interface NewRun {
  runtime: string;
  prompt: string;
  keep_open: boolean;
  model?: string;
  max_budget_usd?: number;
  options?: Record<string, unknown>;
}

export async function startAgent(sandbox: string, run: NewRun): Promise<void> {
  await post(`${pathOf(sandbox)}/agent`, run, { wait: WAIT_S });
}
