/** Puts what a command wrote onto the glass, up to a moment: from its reel, or, where that is too long, screen by screen. */

import { getScreen } from "../../api/commands";
import type { Screen } from "../../api/types";
import type { EventFrame } from "../../live/frames";
import { latest } from "../../state/latest";
import { frameOf, loadReel, type Frame, type Reel } from "../../state/reel";
import type { SandboxStore } from "../../state/sandbox";
import type { CommandTab } from "../../state/terminals";
import type { Glass } from "./glass";

const LINES = 1000;
const LINES_PAST = 200;

export class Projector {
  private reel: Reel | null = null;
  private state: "loading" | "reel" | "screens" = "loading";
  /** Up to where the glass shows it. */
  private shown = 0;
  private at: number | null = null;
  private waiting: Frame[] = [];
  private readonly end: () => void;
  private readonly reels = latest<number, Reel | null>((seen, stop) =>
    loadReel(this.store.id, this.tab.exec, this.tab.first, seen, this.store.state.peek(), stop),
  );
  private readonly screens = latest<number | null, Screen>((moment, stop) =>
    getScreen(this.store.id, this.tab.exec, moment, moment === null ? LINES : LINES_PAST, stop),
  );

  constructor(
    private readonly store: SandboxStore,
    private readonly tab: CommandTab,
    private readonly glass: Glass,
    private readonly trouble: (error: unknown) => void,
  ) {
    this.end = store.listen((frame) => this.heard(frame));
    this.load(store.record.last?.sequence ?? tab.first);
  }

  show(at: number | null): void {
    this.at = at;
    if (this.state === "reel") this.play();
    if (this.state === "screens") this.ask();
  }

  close(): void {
    this.reels.cancel();
    this.screens.cancel();
    this.end();
  }

  /** All up to `seen` comes from the log, all behind it from the feed: nothing twice, nothing left out. */
  private load(seen: number): void {
    this.reels.ask(seen, (reel) => this.loaded(reel), this.trouble);
  }

  private loaded(reel: Reel | null): void {
    this.reel = reel;
    this.state = this.reel === null ? "screens" : "reel";
    for (const frame of this.waiting) this.reel?.add(frame);
    this.shown = -1;
    this.show(this.at);
  }

  private heard({ sequence, data }: EventFrame): void {
    const frame = data.data["exec"] === this.tab.exec ? frameOf(sequence, data) : null;
    if (frame === null) return;
    if (this.state === "reel") {
      this.reel?.add(frame);
      if (this.at === null) this.play();
    } else if (this.state === "screens" && this.at === null && this.shown >= 0) this.put(frame);
    else this.waiting.push(frame);
  }

  private play(): void {
    const upTo = this.at;
    if (this.shown < 0 || (upTo !== null && upTo < this.shown)) this.glass.clear(this.tab.size);
    const from = upTo !== null && upTo < this.shown ? -1 : this.shown;
    let last = from;
    for (const frame of this.reel?.between(from, upTo) ?? []) {
      this.put(frame);
      last = frame.sequence;
    }
    this.shown = Math.max(last, 0);
    this.trouble(null);
  }

  private ask(): void {
    const moment = this.at ?? this.store.record.last?.sequence ?? null;
    this.shown = -1;
    this.waiting = [];
    this.screens.ask(
      moment,
      (screen) => {
        this.glass.show(screen);
        this.shown = screen.sequence;
        for (const frame of this.waiting) if (frame.sequence > screen.sequence && this.at === null) this.put(frame);
        this.waiting = [];
        this.trouble(null);
      },
      this.trouble,
    );
  }

  private put({ data, resize }: Frame): void {
    if (data !== null) this.glass.write(data);
    if (resize !== null) this.glass.resize(resize);
  }
}
