/** The slider over everything that happened: drag it back, play from there, return to live. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Player } from "../../state/player";
import type { SandboxStore } from "../../state/sandbox";
import { dark } from "../../state/theme";
import { binsOf, type Colour } from "../../story/density";
import { eventLine } from "../../story/event_line";
import { clock, counted, moment } from "../../story/words";
import { colourOf } from "../../ui/colour";
import { Icon } from "../../ui/icon";
import { now } from "../../ui/now";
import { Speed } from "./speed";

export interface TimeBarProps {
  store: SandboxStore;
  player: Player;
  show: (at: number | null) => void;
}

export function TimeBar({ store, player, show }: TimeBarProps) {
  void store.record.version.value;
  const { record } = store;
  const total = record.length;
  const live = store.moment.value === null;
  const at = Math.max(0, store.count.value - 1);
  const row = record.at(at);
  const { done, part } = store.loaded.value;

  function slide(index: number): void {
    player.stop();
    show(index >= total - 1 ? null : (record.at(index)?.sequence ?? null));
  }

  return (
    <section class={`time-bar ${live ? "live" : "past"}`} aria-label="Time">
      <button class="button icon" aria-label={player.playing.value ? "Stop playing" : "Play"} title="Play (p)" disabled={total < 2 || !done} onClick={() => player.toggle()}>
        <Icon name={player.playing.value ? "pause" : "play"} />
      </button>
      <Speed player={player} />
      <div class="slider">
        <Strip store={store} length={total} />
        <input
          type="range" min={0} max={Math.max(0, total - 1)} step={1} value={at} disabled={total < 2 || !done} aria-label="Moment"
          aria-valuetext={row ? `${live ? "live, " : ""}event ${at + 1} of ${total}, ${clock(row.time)}, ${row.type}` : "nothing yet"}
          onInput={(event) => slide(Number(event.currentTarget.value))}
        />
        {!done && <div class="loading" role="progressbar" aria-label="Reading history" aria-valuenow={Math.round(part * 100)} aria-valuemin={0} aria-valuemax={100}><i style={{ width: `${part * 100}%` }} /></div>}
      </div>
      <div class="moment">
        {row ? (
          <>
            <span class="mono when">{moment(row.time, now.value)}</span>
            <span class="faint cut what">{live ? counted(total, "event") : `${(at + 1).toLocaleString()} of ${total.toLocaleString()} · ${row.type} ${eventLine(row)}`}</span>
          </>
        ) : <span class="faint">no events yet</span>}
      </div>
      <button class={`button small to-live ${live ? "on" : ""}`} aria-pressed={live} title="Back to live (l)" onClick={() => { player.stop(); show(null); }}>
        <span class="dot" /> Live
      </button>
    </section>
  );
}

const ORDER: Colour[] = ["trouble", "agent", "file", "network", "command", "other"];
const NAMES: Record<Colour, string> = { trouble: "bad", agent: "think", file: "good", network: "info", command: "edge-strong", other: "edge" };
const BIN = 4;

/** What happened where, by colour: a look tells where the agent worked and where something went wrong. */
function Strip({ store, length }: { store: SandboxStore; length: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { done } = store.loaded.value;
  const colours = useMemo(() => Object.fromEntries(ORDER.map((each) => [each, colourOf(NAMES[each])])) as Record<Colour, string>, [dark.value]);
  useEffect(() => {
    const element = canvas.current;
    if (element && done) draw(element, store, colours);
  }, [done ? coarse(length) : 0, done, colours]);
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => draw(element, store, colours));
    observer.observe(element);
    return () => observer.disconnect();
  }, [colours]);
  return <canvas ref={canvas} class="strip" aria-hidden="true" />;
}

/** With many events one more is not to be seen. */
function coarse(length: number): number {
  return length < 2000 ? length : 2000 + Math.floor(length / 250);
}

function draw(element: HTMLCanvasElement, store: SandboxStore, colours: Record<Colour, string>): void {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = element;
  const pen = element.getContext("2d");
  if (pen === null || width === 0) return;
  element.width = width * ratio;
  element.height = height * ratio;
  pen.scale(ratio, ratio);
  const bins = binsOf(store.record, Math.floor(width / BIN));
  const step = width / bins.length;
  bins.forEach((bin, index) => {
    let top = height;
    for (const colour of ORDER.toReversed()) {
      const part = ((bin.parts[colour] ?? 0) / Math.max(1, bin.total)) * height;
      pen.fillStyle = colours[colour];
      pen.fillRect(index * step, top - part, Math.max(1, step - (step > 3 ? 1 : 0)), part);
      top -= part;
    }
  });
}
