/** Dark, light, or as the system likes it. */

import { computed, effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEY = "cloche-theme";
const ORDER: Theme[] = ["system", "light", "dark"];

const kept = localStorage.getItem(KEY) as Theme | null;
export const theme = signal<Theme>(kept !== null && ORDER.includes(kept) ? kept : "system");

const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
system.addEventListener("change", () => {
  systemDark.value = system.matches;
});
/** For what draws by itself, and has to draw anew. */
export const dark = computed(() => (theme.value === "system" ? systemDark.value : theme.value === "dark"));

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(KEY, theme.value);
});

export function nextTheme(): void {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length] ?? "system";
}
