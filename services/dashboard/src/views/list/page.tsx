/** All sandboxes. */

import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Status } from "../../api/types";
import { matches, order, questions, type Filter } from "../../state/filter";
import { pressed } from "../../state/keys";
import { SandboxesStore } from "../../state/sandboxes";
import { mayOperate } from "../../state/session";
import { UsesStore } from "../../state/uses";
import { Banner } from "../../ui/banner";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { Windowed } from "../../ui/windowed";
import { NoSandboxes } from "./none";
import { SandboxRow } from "./row";
import { spawning } from "./spawning";

const filter = signal<Filter>({ status: "all", words: "" });
const STATUSES: Status[] = ["creating", "running", "paused", "stopped", "failed", "error"];

export function ListPage() {
  const store = useMemo(() => new SandboxesStore(), []);
  const uses = useMemo(() => new UsesStore(), []);
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => () => { store.close(); uses.close(); }, []);
  useEffect(() => {
    document.title = "Cloche";
    const keys = (event: KeyboardEvent) => {
      if (!pressed(event, "/")) return;
      event.preventDefault();
      search.current?.focus();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);

  const all = store.all.value;
  const shown = (all ?? []).filter((each) => matches(each, filter.value)).sort(order);
  const asking = (all ?? []).filter((each) => questions(each) > 0).length;
  return (
    <div class="list-page">
      <Banner link={store.link.value} trouble={store.trouble.value} />
      <div class="list-head">
        <h1>Sandboxes</h1>
        <span class="faint count" aria-live="polite">{all === null ? "" : shown.length === all.length ? all.length : `${shown.length} of ${all.length}`}</span>
        <div class="grow" />
        <div class="search">
          <Icon name="search" />
          <input
            ref={search} class="field" type="search" placeholder="Search name, label, task, agent" aria-label="Search"
            value={filter.value.words} onInput={(event) => (filter.value = { ...filter.value, words: event.currentTarget.value })}
          />
        </div>
        <select class="field" aria-label="Status" value={filter.value.status} onChange={(event) => choose(store, event.currentTarget.value as Filter["status"])}>
          <option value="all">every status</option>
          <option value="asking">asks for leave{asking ? ` (${asking})` : ""}</option>
          {STATUSES.map((each) => <option key={each} value={each}>{each}</option>)}
          <option value="removed">removed</option>
        </select>
        <button class="button main" disabled={!mayOperate.value} title={mayOperate.value ? "New sandbox (n)" : "This takes the role operator"} onClick={() => (spawning.value = true)}>
          <Icon name="plus" /> New sandbox
        </button>
      </div>
      {all === null ? <Waiting trouble={store.trouble.value} /> : all.length === 0 && filter.value.status === "all" ? <NoSandboxes /> : shown.length === 0 ? (
        <Empty title="None of them is like that">
          <p>Other words, or another status, will find more.</p>
          <button class="button" onClick={() => choose(store, "all", "")}>Show all</button>
        </Empty>
      ) : (
        <div class="card list">
          <div class="list-columns faint" aria-hidden="true"><span>Sandbox</span><span>Status</span><span>Agent</span><span>CPU</span><span>Memory</span><span>Cost</span><span>Age</span></div>
          <Windowed
            count={shown.length} estimate={76} label="Sandboxes" keyOf={(index) => shown[index]?.sandbox ?? index}
            render={(index) => { const state = shown[index]; return state && <SandboxRow state={state} uses={uses} />; }}
          />
        </div>
      )}
    </div>
  );
}

function choose(store: SandboxesStore, status: Filter["status"], words = filter.value.words): void {
  filter.value = { status, words };
  store.showRemoved(status === "removed");
}

function Waiting({ trouble }: { trouble: string | null }) {
  return trouble === null ? <Empty title="Looking…" /> : (
    <Empty title="The sandboxes could not be read">
      <p>{trouble}</p>
      <p>It is tried again every two seconds. <code>./cloche doctor</code> says what is wrong.</p>
    </Empty>
  );
}
