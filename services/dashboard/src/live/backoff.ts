const FIRST_MS = 250;
const LONGEST_MS = 8000;

/** How long to wait before the next attempt, the first being 0. `chance` is between 0 and 1: not all come at once. */
export function waitMs(attempt: number, chance: number): number {
  const most = Math.min(FIRST_MS * 2 ** attempt, LONGEST_MS);
  return most * (0.5 + chance / 2);
}
