import { useMemo, useState } from "preact/hooks";
import { foldDiff, parseDiff } from "../story/diff";

const SIGN = { added: "+", removed: "−", context: " ", hunk: "" };

/** A unified diff, coloured, its first lines at first. */
export function DiffView({ diff, most = 24 }: { diff: string; most?: number }) {
  const [open, setOpen] = useState(false);
  const lines = useMemo(() => parseDiff(diff), [diff]);
  const { shown, folded } = open ? { shown: lines, folded: 0 } : foldDiff(lines, most);
  return (
    <div class="diff" role="group" aria-label="Diff" tabIndex={0}>
      {shown.map((line, index) => (
        <div key={index} class={`diff-line ${line.kind}`}>
          <span class="diff-number" aria-hidden="true">{line.old ?? ""}</span>
          <span class="diff-number" aria-hidden="true">{line.new ?? ""}</span>
          <span class="diff-text">{line.kind === "hunk" ? "" : <span class="diff-sign">{SIGN[line.kind]}</span>}{line.text}</span>
        </div>
      ))}
      {folded > 0 && <button class="button bare small" onClick={() => setOpen(true)}>{folded} more lines</button>}
    </div>
  );
}
