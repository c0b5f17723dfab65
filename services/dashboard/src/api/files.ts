import { get, getBytes } from "./http";
import { pathOf } from "./sandboxes";
import type { FileInfo, FilePage } from "./types";

const MOST = 20_000;

export interface Tree {
  sequence: number;
  workspace: string;
  entries: FileInfo[];
  /** There are more than anybody can look through. */
  more: boolean;
}

export async function getTree(sandbox: string, at: number | null, signal?: AbortSignal): Promise<Tree> {
  let page: FilePage = await get(`${pathOf(sandbox)}/files`, { recursive: true, at }, signal);
  const entries = [...page.entries];
  while (page.next !== null && entries.length < MOST) {
    page = await get(`${pathOf(sandbox)}/files`, { recursive: true, at: page.sequence, after: page.next }, signal);
    entries.push(...page.entries);
  }
  return { sequence: page.sequence, workspace: page.workspace, entries, more: page.next !== null };
}

export async function getContent(sandbox: string, path: string, at: number | null, signal?: AbortSignal): Promise<Uint8Array> {
  const spelled = path.split("/").map(encodeURIComponent).join("/");
  return getBytes(`${pathOf(sandbox)}/files/${spelled}`, { at }, signal);
}
