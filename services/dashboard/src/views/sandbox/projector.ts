/** Puts what a command wrote onto the glass, up to a moment: from its reel, or, where that is too long, screen by screen. */

import { getScreen } from "../../api/commands";
import type { Screen } from "../../api/types";
import type { EventFrame } from "../../live/frames";
import { latest } from "../../state/latest";
import { frameOf, loadReel, sizeOf, type Frame, type Reel } from "../../state/reel";
import type { SandboxStore } from "../../state/sandbox";
import type { CommandTab } from "../../state/terminals";
import type { Glass } from "./glass";

const LINES = 1000;
const LINES_PAST = 200;
/** What the glass, or somebody who waits for a screen, is given at most before it is taken in: a tab that nobody looks at takes in little. */
const MOST_PENDING = 4_000_000;

export class Projector {
  private reel: Reel | null = null;
  private state: "loading" | "reel" | "screens" = "loading";
  /** Up to where the glass shows it. */
  private shown = 0;
  private at: number | null = null;
  /** The glass has enough before it: it is looked at again once it has taken that in. */
  private behind = false;
  private readonly waiting = new Waiting();
  private asks = 0;
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
    private readonly glass: Pick<Glass, "show" | "clear" | "write" | "resize" | "pending" | "after">,
    private readonly trouble: (error: unknown) => void,
  ) {
    this.end = store.listen((frame) => this.heard(frame));
    this.load(store.record.last?.sequence ?? tab.first);
  }

  show(at: number | null): void {
    this.at = at;
    this.look();
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
    for (const frame of this.waiting.frames) reel?.add(frame);
    const much = reel === null || reel.full || this.waiting.missed;
    this.reel = much ? null : reel;
    this.state = much ? "screens" : "reel";
    this.waiting.clear();
    this.shown = -1;
    this.look();
  }

  private heard({ sequence, data }: EventFrame): void {
    const frame = data.data["exec"] === this.tab.exec ? frameOf(sequence, data) : null;
    if (frame === null) return;
    if (this.state === "loading") this.waiting.add(frame);
    else if (this.state === "reel") this.kept(frame);
    else if (this.at === null) this.passed(frame);
  }

  private kept(frame: Frame): void {
    this.reel?.add(frame);
    if (this.at === null) this.play();
    if (!this.reel?.full) return;
    this.reel = null;
    this.state = "screens";
  }

  /** On to the glass, and not kept. What is left out here is in the screen that is asked for later. */
  private passed(frame: Frame): void {
    if (this.shown < 0) this.waiting.add(frame);
    else if (!this.late()) this.put(frame);
  }

  private look(): void {
    if (this.state === "reel") this.play();
    else if (this.state === "screens" && !this.late()) this.ask();
  }

  private late(): boolean {
    if (!this.behind && this.glass.pending > MOST_PENDING) {
      this.behind = true;
      this.glass.after(() => {
        this.behind = false;
        this.look();
      });
    }
    return this.behind;
  }

  private play(): void {
    if (this.late()) return;
    const upTo = this.at;
    if (this.shown < 0 || (upTo !== null && upTo < this.shown)) {
      this.glass.clear(this.tab.size);
      this.shown = -1;
    }
    for (const frame of this.reel?.between(this.shown, upTo) ?? []) this.put(frame);
    this.shown = Math.max(this.shown, 0);
    this.trouble(null);
  }

  private ask(): void {
    const moment = this.at ?? this.store.record.last?.sequence ?? null;
    const ask = ++this.asks;
    this.shown = -1;
    this.waiting.clear();
    this.screens.ask(moment, (screen) => this.answered(screen, ask === this.asks), this.trouble);
  }

  private answered(screen: Screen, newest: boolean): void {
    this.trouble(null);
    // Of a moment that was passed meanwhile: something to see, and nothing to go on from.
    if (!newest && this.at === null) return;
    this.glass.show(screen);
    if (!newest) return;
    this.shown = screen.sequence;
    if (this.waiting.missed) this.look();
    else for (const frame of this.waiting.taken()) if (frame.sequence > screen.sequence && this.at === null) this.put(frame);
  }

  private put({ sequence, data, resize }: Frame): void {
    if (data !== null) this.glass.write(data);
    if (resize !== null) this.glass.resize(resize);
    this.shown = sequence;
  }
}

/** What was heard while something is on its way; where that is much, only that it was. */
class Waiting {
  frames: Frame[] = [];
  missed = false;
  private size = 0;

  add(frame: Frame): void {
    if (this.missed) return;
    this.frames.push(frame);
    this.size += sizeOf(frame);
    if (this.size <= MOST_PENDING) return;
    this.clear();
    this.missed = true;
  }

  taken(): Frame[] {
    const { frames } = this;
    this.clear();
    return frames;
  }

  clear(): void {
    this.frames = [];
    this.size = 0;
    this.missed = false;
  }
}
