/** One sandbox: its head, what works in it, its agent, and the time slider below it all. */

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Lack } from "../../api/types";
import { pressed } from "../../state/keys";
import { addressOf, pass, route, VIEWS, type View } from "../../state/route";
import { Player } from "../../state/player";
import { questions } from "../../state/filter";
import { SandboxStore } from "../../state/sandbox";
import { Banner, LackBanner } from "../../ui/banner";
import { Empty } from "../../ui/empty";
import { narrow } from "../../ui/narrow";
import { Tabs } from "../../ui/tabs";
import { AgentPanel } from "./agent_panel";
import { EventsPanel } from "./events_panel";
import { FilesPanel } from "./files_panel";
import { FindingsPanel } from "./findings_panel";
import { Head } from "./head";
import { NetworkPanel } from "./network_panel";
import { TerminalPanel } from "./terminal_panel";
import { TimeBar } from "./time_bar";
import { UsePanel } from "./use_panel";

const NAMES: Record<View, string> = {
  agent: "Agent", terminal: "Terminal", files: "Files", network: "Network", use: "Use", findings: "Findings", events: "Events",
};

/** Once the log has lost its end all is read anew: what was shown of it did not happen, as far as anybody can tell. */
export function SandboxPage({ id }: { id: string }) {
  const [lost, setLost] = useState<Lack[]>([]);
  function cut(lack: Lack): void {
    const { view, at } = route.peek();
    if (at !== null && at >= lack.first_sequence) pass(addressOf(id, view, null));
    setLost([...lost, lack]);
  }
  return <Opened key={lost.length} id={id} lost={lost} onCut={cut} />;
}

function Opened({ id, lost, onCut }: { id: string; lost: Lack[]; onCut: (lost: Lack) => void }) {
  const store = useMemo(() => new SandboxStore(id, lost, onCut), [id]);
  const show = (at: number | null) => pass(addressOf(id, route.peek().view, at));
  const player = useMemo(() => new Player({ record: store.record, moment: () => store.moment.peek(), show }), [store]);
  useEffect(() => {
    document.title = `${id} · Cloche`;
    return () => { player.stop(); store.close(); };
  }, [store]);
  useKeys(store, player, show);

  const trouble = store.trouble.value;
  if (store.state.value === null) return trouble === null ? <Empty title="Looking…" /> : <Missing id={id} {...trouble} />;
  const wanted = route.value.view;
  // Where there is room the agent has a place of its own.
  const view = wanted === "agent" && !narrow.value ? "terminal" : wanted;
  const names: View[] = narrow.value ? ["agent", ...VIEWS] : [...VIEWS];
  const choose = (name: View) => pass(addressOf(id, name, store.moment.peek()));
  const asks = questions(store.state.value);
  return (
    <div class="sandbox-page" data-view={view}>
      <Banner link={store.link.value} />
      <LackBanner lacking={store.lacking.value} />
      <Head store={store} />
      <div class="sandbox-body">
        <section class={`work ${view === "agent" ? "only-tabs" : ""}`} aria-label="Workbench">
          <Tabs
            label="Views" panel="view" chosen={view} onChoose={choose} class="view-tabs"
            tabs={names.map((name) => ({ name, label: <>{NAMES[name]}{name === "agent" && asks > 0 && <span class="asks">{asks}</span>}<Count store={store} name={name} /></> }))}
          />
          <div id="view" class="view" role="tabpanel" aria-labelledby={`tab-view-${view}`}>
            {view === "terminal" && <TerminalPanel store={store} />}
            {view === "files" && <FilesPanel store={store} />}
            {view === "network" && <NetworkPanel store={store} />}
            {view === "use" && <UsePanel store={store} />}
            {view === "findings" && <FindingsPanel store={store} />}
            {view === "events" && <EventsPanel store={store} show={show} />}
          </div>
        </section>
        {(!narrow.value || view === "agent") && <AgentPanel store={store} />}
      </div>
      <TimeBar store={store} player={player} show={show} />
    </div>
  );
}

function Count({ store, name }: { store: SandboxStore; name: View }) {
  const family = name === "network" ? "network" : name === "findings" ? "guardian" : null;
  if (name === "events") return store.count.value ? <span class="count">{store.count.value.toLocaleString()}</span> : null;
  if (family === null) return null;
  void store.record.version.value;
  const count = store.record.family(family).countTo(store.moment.value);
  return count ? <span class="count">{count.toLocaleString()}</span> : null;
}

function Missing({ id, words, gone }: { id: string; words: string; gone: boolean }) {
  return (
    <Empty title={gone ? `There is no sandbox ${id}` : "It could not be read"}>
      <p>{gone ? "It may be about to be made, or be out of what you may see." : words} It is tried again every two seconds.</p>
      <a class="button" href={addressOf(null)}>All sandboxes</a>
    </Empty>
  );
}

function useKeys(store: SandboxStore, player: Player, show: (at: number | null) => void): void {
  useEffect(() => {
    const step = (by: number) => {
      player.stop();
      const { record } = store;
      const at = Math.max(0, store.count.peek() - 1 + by);
      show(at >= record.length - 1 ? null : (record.at(at)?.sequence ?? null));
    };
    const focusOn = (view: View, id: string) => {
      // Where there is room the agent is beside every view.
      if (view !== "agent" || narrow.peek()) pass(addressOf(store.id, view, store.moment.peek()));
      requestAnimationFrame(() => document.getElementById(id)?.focus());
    };
    const keys = (event: KeyboardEvent) => {
      const view = VIEWS[Number(event.key) - 1];
      if (pressed(event, "[")) step(-1);
      else if (pressed(event, "]")) step(1);
      else if (pressed(event, "{")) step(-100);
      else if (pressed(event, "}")) step(100);
      else if (pressed(event, "p")) player.toggle();
      else if (pressed(event, "l")) { player.stop(); show(null); }
      else if (pressed(event, "c")) focusOn("agent", "composer");
      else if (pressed(event, "r")) focusOn("terminal", "run-line");
      else if (pressed(event, "a")) focusOn("agent", "first-question");
      else if (view !== undefined && pressed(event, event.key)) pass(addressOf(store.id, view, store.moment.peek()));
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [store]);
}

