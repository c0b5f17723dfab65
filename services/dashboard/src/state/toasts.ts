/** Short words about what was just done, or why it was not. */

import { signal } from "@preact/signals";
import { wordsOf } from "../api/problem";

export interface Toast {
  id: number;
  kind: "done" | "failed";
  text: string;
}

const STAYS_MS = 6000;
export const toasts = signal<Toast[]>([]);
let last = 0;

export function tell(text: string, kind: Toast["kind"] = "done"): void {
  // Whoever types on and on is told once.
  if (toasts.value.some((each) => each.text === text && each.kind === kind)) return;
  const id = ++last;
  toasts.value = [...toasts.value, { id, kind, text }].slice(-4);
  setTimeout(() => dismiss(id), STAYS_MS);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

/** Does it; where it fails, says why. Whether it was done. */
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done) tell(done);
    return true;
  } catch (error) {
    tell(wordsOf(error), "failed");
    return false;
  }
}
