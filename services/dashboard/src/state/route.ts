/** Where somebody is, in the address, so that it can be shared and gone back to: `#/sandboxes/sb-1/files?at=42`. */

import { computed, signal } from "@preact/signals";

export const VIEWS = ["terminal", "files", "network", "use", "findings", "events"] as const;
export type View = (typeof VIEWS)[number] | "agent";

export interface Route {
  sandbox: string | null;
  view: View;
  /** The sequence that is looked at; null = now. */
  at: number | null;
}

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => parseRoute(hash.value));

export function parseRoute(text: string): Route {
  const [path = "", query = ""] = text.replace(/^#\/?/, "").split("?", 2);
  const [root, sandbox, view] = path.split("/");
  const at = Number(new URLSearchParams(query).get("at"));
  return {
    sandbox: root === "sandboxes" && sandbox ? decoded(sandbox) : null,
    view: view === "agent" || VIEWS.includes(view as never) ? (view as View) : "terminal",
    at: Number.isSafeInteger(at) && at > 0 ? at : null,
  };
}

export function addressOf(sandbox: string | null, view: View = "terminal", at: number | null = null): string {
  if (sandbox === null) return "#/";
  return `#/sandboxes/${encodeURIComponent(sandbox)}/${view}${at === null ? "" : `?at=${at}`}`;
}

export function go(address: string): void {
  location.hash = address;
}

/** Without a step to go back to: a slider passes many moments. */
export function pass(address: string): void {
  history.replaceState(null, "", address);
  hash.value = address;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
