import { get, post } from "./http";
import { pathOf } from "./sandboxes";
import type { Screen } from "./types";

export interface Size {
  rows: number;
  cols: number;
}

/** Runs a line in the sandbox's shell. The name of its execution. */
export async function runLine(sandbox: string, shell: string, pty: Size | null): Promise<string> {
  const order = pty === null ? { shell } : { shell, pty, stdin: true };
  return (await post<{ exec: string }>(`${pathOf(sandbox)}/commands`, order)).exec;
}

export async function cancelCommand(sandbox: string, exec: string): Promise<void> {
  await post(`${pathOf(sandbox)}/commands/${encodeURIComponent(exec)}/signal`, { cancel: true });
}

export async function getScreen(sandbox: string, exec: string, at: number | null, lines: number, signal?: AbortSignal): Promise<Screen> {
  return get(`${pathOf(sandbox)}/terminal`, { exec, at, lines }, signal);
}
