import { signal } from "@preact/signals";

/** Whether the dialog for a new sandbox is open. */
export const spawning = signal(false);
