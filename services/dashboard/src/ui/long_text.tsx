import { useState } from "preact/hooks";

const AT_FIRST = 1800;

/** Text as it was written, its beginning at first. */
export function LongText({ text, mono = false }: { text: string; mono?: boolean }) {
  const [whole, setWhole] = useState(false);
  const long = text.length > AT_FIRST * 1.2;
  return (
    <div class={mono ? "long mono" : "long"}>
      {long && !whole ? `${text.slice(0, AT_FIRST)}…` : text}
      {long && !whole && <button class="button bare small" onClick={() => setWhole(true)}>{(text.length - AT_FIRST).toLocaleString()} more characters</button>}
    </div>
  );
}
