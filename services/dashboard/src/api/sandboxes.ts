import { get, post, remove } from "./http";
import type { SandboxDetail, SandboxPage, SandboxState, StateAt } from "./types";

const PAGE = 200;
const MOST = 5000;
const RECENT = 200;
const WAIT_S = 10;

export function pathOf(sandbox: string): string {
  return `/sandboxes/${encodeURIComponent(sandbox)}`;
}

/** All of them, up to a number that nobody looks through by eye. */
export async function listSandboxes(removed: boolean): Promise<SandboxState[]> {
  const found: SandboxState[] = [];
  let after: string | null = null;
  do {
    const page: SandboxPage = await get("/sandboxes", { after, limit: PAGE, removed: removed || null });
    found.push(...page.sandboxes);
    after = page.next;
  } while (after !== null && found.length < MOST);
  return found;
}

export async function getSandbox(sandbox: string, signal?: AbortSignal): Promise<SandboxDetail> {
  return get(pathOf(sandbox), { events: RECENT }, signal);
}

export async function getStateAt(sandbox: string, at: number | null, signal?: AbortSignal): Promise<StateAt> {
  return get(`${pathOf(sandbox)}/state`, { at }, signal);
}

/** `spec` is what differs from the node's defaults. */
export async function createSandbox(id: string | null, spec: unknown): Promise<string> {
  const answer = await post<{ sandbox: string }>("/sandboxes", id ? { id, spec } : { spec }, { wait: WAIT_S });
  return answer.sandbox;
}

export type Verb = "pause" | "resume" | "stop" | "start" | "snapshot";

export async function moveSandbox(sandbox: string, verb: Verb): Promise<void> {
  await post(`${pathOf(sandbox)}/${verb}`);
}

export async function removeSandbox(sandbox: string): Promise<void> {
  await remove(pathOf(sandbox));
}

/** A new sandbox that begins as another was at a sequence; null = as it is now. */
export async function forkSandbox(sandbox: string, id: string | null, at: number | null): Promise<string> {
  const order = { ...(id ? { id } : {}), ...(at === null ? {} : { at: String(at) }) };
  const answer = await post<{ sandbox: string }>(`${pathOf(sandbox)}/fork`, order, { wait: WAIT_S });
  return answer.sandbox;
}
