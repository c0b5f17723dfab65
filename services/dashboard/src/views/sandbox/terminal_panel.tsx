/** Terminals of the sandbox's commands, and a line to run another. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cancelCommand, runLine, type Size } from "../../api/commands";
import type { SandboxStore } from "../../state/sandbox";
import { mayOperate } from "../../state/session";
import { terminalsOf, type CommandTab } from "../../state/terminals";
import { attempt } from "../../state/toasts";
import { Empty } from "../../ui/empty";
import { useEdges } from "../../ui/edges";
import { Icon } from "../../ui/icon";
import { TerminalView } from "./terminal_view";

const TABS = 12;

export function TerminalPanel({ store }: { store: SandboxStore }) {
  const tabs = useMemo(() => terminalsOf(store), [store]).value;
  const chosen = tabs.find((each) => each.exec === store.chosen.value) ?? tabs.find((each) => !each.agent) ?? tabs[0];
  const live = store.moment.value === null;
  return (
    <div class="terminal-panel">
      {tabs.length > 0 && <Commands tabs={tabs} chosen={chosen} onChoose={(exec) => (store.chosen.value = exec)} />}
      <div class="glass">
        {chosen ? <TerminalView key={`${chosen.exec}`} store={store} tab={chosen} /> : <NoCommand store={store} live={live} />}
      </div>
      {live && <RunLine store={store} chosen={chosen} />}
    </div>
  );
}

function Commands({ tabs, chosen, onChoose }: { tabs: CommandTab[]; chosen: CommandTab | undefined; onChoose: (exec: string) => void }) {
  const row = useRef<HTMLDivElement>(null);
  const shown = tabs.slice(0, TABS);
  if (chosen !== undefined && !shown.includes(chosen)) shown.push(chosen);
  useEdges(row, shown.length, chosen?.exec);
  return (
    <div class="commands" role="group" ref={row} aria-label="Commands">
      {shown.map((tab) => (
        <button key={tab.exec} class="command-tab" aria-pressed={tab === chosen} title={`${tab.line}\n${tab.outcome ?? "runs"}`} onClick={() => onChoose(tab.exec)}>
          <span class={`dot ${tab.outcome === null ? "busy" : tab.ok ? "good" : "bad"}`} role="img" aria-label={tab.outcome ?? "runs"} />
          <span class="cut mono">{tab.agent ? "agent's own process" : tab.line}</span>
        </button>
      ))}
      {tabs.length > shown.length && (
        <select class="field small" aria-label="Earlier commands" value="" onChange={(event) => onChoose(event.currentTarget.value)}>
          <option value="">{tabs.length - shown.length} earlier</option>
          {tabs.slice(TABS, TABS + 500).map((tab) => <option key={tab.exec} value={tab.exec}>{tab.line.slice(0, 100)}</option>)}
        </select>
      )}
    </div>
  );
}

function NoCommand({ store, live }: { store: SandboxStore; live: boolean }) {
  if (!store.loaded.value.done) return <Empty title="Reading its history…" />;
  if (!live) return <Empty title="Nothing had been run by then" />;
  const able = mayOperate.value && store.state.value?.status === "running";
  return <Empty title="Nothing was run here"><p>{able ? "Type a command below. " : ""}What a command writes is shown here as it comes, and kept.</p></Empty>;
}

function RunLine({ store, chosen }: { store: SandboxStore; chosen: CommandTab | undefined }) {
  const [line, setLine] = useState("");
  const [pty, setPty] = useState(false);
  const [past, setPast] = useState(-1);
  const typed = useRef<string[]>([]);
  const status = store.state.value?.status;
  const able = mayOperate.value && status === "running";

  async function run(event: Event): Promise<void> {
    event.preventDefault();
    const wanted = line.trim();
    if (!wanted) return;
    const size: Size | null = pty ? roomOf() : null;
    const done = await attempt(async () => {
      store.chosen.value = await runLine(store.id, wanted, size);
      store.owned.add(store.chosen.value);
    });
    if (!done) return;
    typed.current = [wanted, ...typed.current.filter((each) => each !== wanted)].slice(0, 50);
    setPast(-1);
    setLine("");
  }

  function recall(event: KeyboardEvent): void {
    const step = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const at = Math.max(-1, Math.min(typed.current.length - 1, past + step));
    setPast(at);
    setLine(at === -1 ? "" : (typed.current[at] ?? ""));
  }

  useEffect(() => {
    if (chosen?.pty && store.owned.has(chosen.exec)) document.querySelector<HTMLElement>(".glass .xterm-helper-textarea")?.focus();
  }, [chosen?.exec]);

  return (
    <form class="run-line" onSubmit={run}>
      <span class="mono faint" aria-hidden="true">$</span>
      <input
        id="run-line" class="field grow mono" aria-label="Run a command" autocomplete="off" autocapitalize="off" spellcheck={false} disabled={!able}
        placeholder={!mayOperate.value ? "Viewers look on" : able ? "Run a command" : "It does not run"}
        value={line} onInput={(event) => setLine(event.currentTarget.value)} onKeyDown={recall}
      />
      <label class="row faint" title="Give it a terminal, and type into it"><input type="checkbox" checked={pty} disabled={!able} onChange={(event) => setPty(event.currentTarget.checked)} /> terminal</label>
      <button class="button small main" disabled={!able || line.trim() === ""}><Icon name="play" size={14} /> Run</button>
      {chosen && chosen.outcome === null && <button type="button" class="button small danger" disabled={!mayOperate.value} onClick={() => attempt(() => cancelCommand(store.id, chosen.exec), "Asked: end it")}><Icon name="stop" size={14} /> End</button>}
    </form>
  );
}

/** As many characters as the place of a terminal has room for. */
function roomOf(): Size {
  const place = document.querySelector<HTMLElement>(".glass");
  const width = (place?.clientWidth ?? 800) - 40;
  const height = (place?.clientHeight ?? 480) - 24;
  return { cols: Math.max(20, Math.min(240, Math.floor(width / 7.83))), rows: Math.max(5, Math.min(100, Math.floor(height / 16))) };
}
