/** Who looks at this page, and what they may do. */

import { computed, signal } from "@preact/signals";
import { get, onNoSession } from "../api/http";
import { Problem } from "../api/problem";
import type { Session } from "../api/types";

export const session = signal<Session | null>(null);
/** Somebody has to come in (again): no request is answered. */
export const shutOut = signal(false);
export const mayOperate = computed(() => session.value === null || session.value.role !== "viewer");

onNoSession(() => {
  shutOut.value = true;
});

export async function loadSession(): Promise<void> {
  try {
    session.value = await get<Session>("/session");
    shutOut.value = false;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
  }
}
