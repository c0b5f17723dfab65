/** Every event, however many there are. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api/http";
import { pathOf } from "../../api/sandboxes";
import type { LoggedEvent } from "../../api/types";
import { pressed } from "../../state/keys";
import type { SandboxStore } from "../../state/sandbox";
import { colourOfType } from "../../story/density";
import { eventLine, toneOf } from "../../story/event_line";
import { familyOf, type Row } from "../../story/row";
import { Sieve } from "../../story/sieve";
import { clock } from "../../story/words";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { useSettled } from "../../ui/settled";
import { Windowed } from "../../ui/windowed";

const FAMILIES = ["sandbox", "health", "command", "file", "tool", "agent", "user", "guardian", "network", "audit", "dead_letter"];

export function EventsPanel({ store, show }: { store: SandboxStore; show: (at: number | null) => void }) {
  const [words, setWords] = useState("");
  const [family, setFamily] = useState("all");
  const [chosen, setChosen] = useState<Row | null>(null);
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (!pressed(event, "/")) return;
      event.preventDefault();
      search.current?.focus();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);

  const total = store.count.value;
  const wanted = useSettled(words.toLowerCase().trim());
  const sieve = useMemo(() => sieveOf(store, family, wanted), [store, family, wanted]);
  const found = sieve === null ? store.record : sieve.rows();
  const count = sieve === null ? total : found.countTo(store.moment.value);
  const rowAt = (index: number) => found.at(index);
  return (
    <div class="events-panel">
      <div class="row wrap tools">
        <div class="search grow"><Icon name="search" /><input ref={search} class="field" type="search" aria-label="Search events" placeholder="Search events" value={words} onInput={(event) => setWords(event.currentTarget.value)} /></div>
        <select class="field" aria-label="Kind" value={family} onChange={(event) => setFamily(event.currentTarget.value)}>
          <option value="all">every kind</option>
          {FAMILIES.map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
        <span class="faint" aria-live="polite">{sieve === null ? "" : `${count.toLocaleString()} of `}{total.toLocaleString()}{store.loaded.value.done ? "" : ", more to come"}</span>
      </div>
      {count === 0 ? <Empty title={total ? "None is like that" : "No events yet"} /> : (
        <Windowed
          class="lines-list" count={count} estimate={30} fixed follow label="Events" keyOf={(index) => rowAt(index)?.sequence ?? index}
          render={(index) => { const row = rowAt(index); return row && <EventRow row={row} chosen={row.sequence === chosen?.sequence} onChoose={() => setChosen(row.sequence === chosen?.sequence ? null : row)} />; }}
        />
      )}
      {chosen && <EventDetail key={chosen.sequence} store={store} row={chosen} show={show} onClose={() => setChosen(null)} />}
    </div>
  );
}

function sieveOf(store: SandboxStore, family: string, words: string): Sieve | null {
  if (words === "" && family === "all") return null;
  return new Sieve(store.record, (row) => {
    if (family !== "all" && familyOf(row.type) !== family) return false;
    return words === "" || `${row.sequence} ${row.type} ${eventLine(row)}`.toLowerCase().includes(words);
  });
}

function EventRow({ row, chosen, onChoose }: { row: Row; chosen: boolean; onChoose: () => void }) {
  return (
    <button class={`event-row ${toneOf(row.type, row.data)}`} aria-pressed={chosen} onClick={onChoose}>
      <span class="faint mono sequence">{row.sequence}</span>
      <span class="faint mono clock">{clock(row.time)}</span>
      <span class={`swatch ${colourOfType(row.type)}`} />
      <span class="mono type">{row.type}</span>
      <span class="cut grow line">{eventLine(row)}</span>
    </button>
  );
}

function EventDetail({ store, row, show, onClose }: { store: SandboxStore; row: Row; show: (at: number | null) => void; onClose: () => void }) {
  const [whole, setWhole] = useState<unknown>(row.cut ? null : row.data);
  useEffect(() => {
    if (!row.cut) return;
    get<{ events: LoggedEvent[] }>(`${pathOf(store.id)}/events`, { from: row.sequence, limit: 1 })
      .then((page) => setWhole(page.events[0]?.sequence === row.sequence ? page.events[0].event.data : row.data))
      .catch(() => setWhole(row.data));
  }, [row.sequence]);
  return (
    <aside class="event-detail" aria-label={`Event ${row.sequence}`}>
      <div class="row">
        <strong class="mono">{row.sequence} {row.type}</strong>
        <span class="faint cut grow">{row.source}{row.correlation ? ` · asked by ${row.correlation}` : ""}</span>
        <button class="button small" onClick={() => show(row.sequence)}>Look at this moment</button>
        <button class="button bare small icon" aria-label="Close" onClick={onClose}><Icon name="close" size={14} /></button>
      </div>
      <pre tabIndex={0} role="region" aria-label="Its data">{whole === null ? "Looking…" : JSON.stringify(whole, null, 2)}</pre>
    </aside>
  );
}
