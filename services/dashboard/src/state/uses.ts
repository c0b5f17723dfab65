/** What the sandboxes in the list use, asked for now and then: signs of life are not in the log. */

import { signal } from "@preact/signals";
import { get } from "../api/http";
import { pathOf } from "../api/sandboxes";
import type { Vitals } from "../api/types";

const EVERY_MS = 4000;
const SOON_MS = 500;
/** Rows that a screen has room for, and then some. */
const MOST = 60;

export class UsesStore {
  readonly uses = signal(new Map<string, Vitals>());
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  private readonly watched = new Map<string, number>();

  constructor() {
    void this.look();
  }

  /** For as long as somebody can see it. Returns what ends it. */
  watch(sandbox: string): () => void {
    this.watched.set(sandbox, (this.watched.get(sandbox) ?? 0) + 1);
    return () => {
      const left = (this.watched.get(sandbox) ?? 1) - 1;
      if (left > 0) this.watched.set(sandbox, left);
      else this.watched.delete(sandbox);
    };
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
  }

  private wanted(): string[] {
    return [...this.watched.keys()].slice(0, MOST);
  }

  private async look(): Promise<void> {
    const names = document.hidden ? [] : this.wanted();
    const found = await Promise.all(names.map(async (name) => [name, await vitals(name)] as const));
    if (this.closed) return;
    if (found.length) this.uses.value = new Map([...this.uses.value, ...found.filter((each): each is [string, Vitals] => each[1] !== null)]);
    const late = this.wanted().some((each) => !names.includes(each));
    this.timer = setTimeout(() => void this.look(), names.length && !late ? EVERY_MS : SOON_MS);
  }
}

async function vitals(sandbox: string): Promise<Vitals | null> {
  try {
    return await get<Vitals>(`${pathOf(sandbox)}/metrics`, { limit: 1 });
  } catch {
    // A list without figures is still a list.
    return null;
  }
}
