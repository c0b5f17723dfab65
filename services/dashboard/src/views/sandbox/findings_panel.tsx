/** What the guardian found, and what it did about it. */

import type { SandboxStore } from "../../state/sandbox";
import { addressOf } from "../../state/route";
import { number, text, type Row } from "../../story/row";
import { clock } from "../../story/words";
import { Empty } from "../../ui/empty";
import { Pill, type PillTone } from "../../ui/pill";
import { Windowed } from "../../ui/windowed";

const TONES: Record<string, PillTone> = { "guardian.observed": "info", "guardian.intervention": "warn", "guardian.escalated": "bad" };

export function FindingsPanel({ store }: { store: SandboxStore }) {
  void store.record.version.value;
  const shelf = store.record.family("guardian");
  const count = shelf.countTo(store.moment.value);
  if (count === 0) {
    return <Empty title="The guardian found nothing"><p>It looks for loops, storms of errors, silence, spent budgets and dangerous commands. <code>./cloche guardian rules</code> lists what it knows.</p></Empty>;
  }
  return (
    <Windowed
      class="findings" count={count} estimate={92} label="Findings" keyOf={(index) => shelf.at(count - 1 - index)?.sequence ?? index}
      render={(index) => { const row = shelf.at(count - 1 - index); return row && <Finding row={row} store={store} />; }}
    />
  );
}

function Finding({ row, store }: { row: Row; store: SandboxStore }) {
  const { data } = row;
  const evidence = Array.isArray(data["evidence"]) ? data["evidence"].filter((each): each is number => typeof each === "number") : [];
  return (
    <article class="finding">
      <div class="row">
        <Pill tone={TONES[row.type] ?? "plain"}>{row.type.slice("guardian.".length)}</Pill>
        <strong>{text(data, "rule").replaceAll("_", " ")}</strong>
        {(number(data, "count") ?? 1) > 1 && <span class="faint">×{number(data, "count")}</span>}
        <div class="grow" />
        <time class="faint">{clock(row.time)}</time>
      </div>
      <p>{text(data, "finding") || text(data, "text") || text(data, "reason")}</p>
      <p class="faint">
        {text(data, "step") && <>step: {text(data, "step")}{text(data, "held") ? `, held: ${text(data, "held")}` : ""} · </>}
        evidence: {evidence.slice(0, 12).map((each, index) => <span key={each}>{index > 0 && ", "}<a href={addressOf(store.id, "events", each)}>{each}</a></span>)}{evidence.length > 12 && ", …"}
      </p>
    </article>
  );
}
