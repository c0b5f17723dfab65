/** What one command showed: live as it comes, or as it was at the moment that is looked at. */

import { useEffect, useRef, useState } from "preact/hooks";
import { wordsOf } from "../../api/problem";
import { orderFrame } from "../../live/frames";
import type { SandboxStore } from "../../state/sandbox";
import { mayOperate } from "../../state/session";
import type { CommandTab } from "../../state/terminals";
import { dark } from "../../state/theme";
import { tell } from "../../state/toasts";
import { Glass } from "./glass";
import { Projector } from "./projector";

export function TerminalView({ store, tab }: { store: SandboxStore; tab: CommandTab }) {
  const place = useRef<HTMLDivElement>(null);
  const glass = useRef<Glass | null>(null);
  const projector = useRef<Projector | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const at = store.moment.value;
  const running = tab.outcome === null;
  const typing = at === null && running && tab.pty && mayOperate.value;

  useEffect(() => {
    if (place.current === null) return;
    const made = new Glass(place.current, tab.pty, (data) => typed(store, tab.exec, data));
    const shown = new Projector(store, tab, made, (error) => setTrouble(error === null ? null : wordsOf(error)));
    glass.current = made;
    projector.current = shown;
    const sized = new ResizeObserver(() => fitted(store, tab, made));
    sized.observe(place.current);
    fitted(store, tab, made);
    shown.show(store.moment.peek());
    return () => { sized.disconnect(); shown.close(); made.dispose(); glass.current = null; };
  }, [tab.exec, dark.value]);
  useEffect(() => projector.current?.show(at), [at]);
  useEffect(() => glass.current?.typing(typing), [typing, dark.value]);

  function take(): void {
    store.owned.add(tab.exec);
    if (glass.current) fitted(store, tab, glass.current);
  }

  return (
    <div class={`terminal-view ${tab.pty ? "pty" : ""}`}>
      <div class="terminal-place" ref={place} data-exec={tab.exec} />
      <div class="terminal-foot">
        <span class="grow cut">{trouble ?? (running ? (typing ? "type to it; Esc, then Tab leaves" : "runs") : tab.outcome)}</span>
        {typing && !store.owned.has(tab.exec) && <button class="button bare small" onClick={take}>fit to my window</button>}
        {tab.pty && <span>terminal</span>}
      </div>
    </div>
  );
}

function typed(store: SandboxStore, exec: string, data: string): void {
  const sent = store.feed.peek()?.send(orderFrame("input", { exec, data }));
  if (!sent) tell("That was not typed: the gateway is away. It works again as soon as it answers.", "failed");
}

/** A program without a terminal is shown as wide as there is room; a terminal has a size of its own, unless it is ours. */
function fitted(store: SandboxStore, tab: CommandTab, glass: Glass): void {
  const room = glass.room;
  if (room === null) return;
  if (!tab.pty) {
    glass.resize(room);
    return;
  }
  if (!store.owned.has(tab.exec) || tab.outcome !== null || store.moment.peek() !== null) return;
  const { rows, cols } = glass.terminal;
  if (rows === room.rows && cols === room.cols) return;
  store.feed.peek()?.send(orderFrame("resize", { exec: tab.exec, ...room }));
}
