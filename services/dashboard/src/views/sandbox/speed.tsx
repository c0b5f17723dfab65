/** How fast it is played: any number between the bounds, with some to choose from. */

import { useState } from "preact/hooks";
import type { Player } from "../../state/player";
import { FASTEST, SLOWEST, SPEEDS } from "../../state/player";

interface Typed {
  /** As it stands in the field: on the way to 0.5 it is no speed yet, and must not be written over. */
  text: string;
  wrong: boolean;
  /** The speed that Escape gives back. */
  before: number;
}

export function Speed({ player }: { player: Player }) {
  const [typed, setTyped] = useState<Typed | null>(null);

  function type(field: HTMLInputElement): void {
    const before = typed?.before ?? player.speed.peek();
    setTyped({ text: field.value, wrong: !player.setSpeed(field.valueAsNumber), before });
  }

  function finish(event: KeyboardEvent): void {
    if (typed === null) return;
    if (event.key === "Escape") player.setSpeed(typed.before);
    else if (event.key !== "Enter" || typed.wrong) return;
    setTyped(null);
  }

  return (
    <span class="speed row">
      <input
        class="field small" type="number" list="speeds" aria-label="Speed" title={`${SLOWEST} to ${FASTEST} times as fast`} aria-invalid={typed?.wrong ?? false}
        min={SLOWEST} max={FASTEST} step="any" value={typed?.text ?? String(player.speed.value)}
        onInput={(event) => type(event.currentTarget)} onKeyDown={finish} onBlur={() => setTyped(null)}
      />
      <datalist id="speeds">{SPEEDS.map((each) => <option key={each} value={each} />)}</datalist>
      <span class="faint" aria-hidden="true">×</span>
    </span>
  );
}
