/** Keys that do something wherever somebody is, but not while they type. */

export function pressed(event: KeyboardEvent, key: string): boolean {
  if (event.key !== key || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  const target = event.target as HTMLElement | null;
  if (target?.closest("dialog, .xterm, [contenteditable]")) return false;
  const typing = target instanceof HTMLInputElement && target.type !== "range" && target.type !== "checkbox";
  return !typing && !(target instanceof HTMLTextAreaElement) && !(target instanceof HTMLSelectElement);
}
