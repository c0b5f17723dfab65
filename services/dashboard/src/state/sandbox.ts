/** One sandbox, as it is and as it was: its state, its record, and the line that keeps both current. */

import { computed, effect, signal } from "@preact/signals";
import { isAbort, isGone } from "../api/http";
import { Problem, wordsOf } from "../api/problem";
import { getSandbox, getStateAt, pathOf } from "../api/sandboxes";
import type { Lack, SandboxDetail, SandboxState, StateAt } from "../api/types";
import { Feed } from "../live/feed";
import type { EventFrame, Frame } from "../live/frames";
import { History } from "../live/history";
import { Record } from "../story/record";
import { familyOf, rowOf } from "../story/row";
import type { Shelf } from "../story/shelf";
import { Story, type Item } from "../story/story";
import { latest } from "./latest";
import { route } from "./route";
import { loadSession } from "./session";
import { tell } from "./toasts";

/** What moves the state that the header, the tabs and the questions are drawn from. */
const MOVING = new Set(["sandbox", "health", "agent", "user", "network", "guardian"]);
const REFRESH_MS = 120;
const RETRY_MS = 2000;

export class SandboxStore {
  readonly state = signal<SandboxState | null>(null);
  readonly past = signal<StateAt | null>(null);
  readonly trouble = signal<{ words: string; gone: boolean } | null>(null);
  readonly record = new Record();
  readonly feed = signal<Feed | null>(null);
  readonly history = signal<History | null>(null);
  /** What the log has lost, in words. */
  readonly lacking = signal<string[]>([]);
  /** The command whose terminal somebody chose; null = the newest. */
  readonly chosen = signal<string | null>(null);
  /** The file that is looked at, relative to the workspace. */
  readonly file = signal<string | null>(null);
  /** Terminals that are as large as they are shown here, because they were begun or taken here. */
  readonly owned = new Set<string>();
  private readonly listeners = new Set<(frame: EventFrame) => void>();
  private readonly ends: (() => void)[] = [];
  private refreshing: ReturnType<typeof setTimeout> | undefined;
  private retrying: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  private readonly onCut: (lost: Lack) => void;

  /** `lost`: what is known to be lost. `onCut`: nothing here is sure any more, and it has to be opened anew. */
  constructor(readonly id: string, lost: Lack[] = [], onCut: (lost: Lack) => void = () => undefined) {
    this.onCut = onCut;
    lost.forEach((lack) => this.lacks(lack));
    void this.open();
    const moments = latest<number, StateAt>((at, stop) => getStateAt(id, at, stop));
    this.ends.push(
      effect(() => {
        const at = this.moment.value;
        if (at === null) {
          this.past.value = null;
          moments.cancel();
        } else moments.ask(at, (found) => (this.past.value = found), () => undefined);
      }),
    );
  }

  /** The sequence that is looked at; null = now. */
  readonly moment = computed(() => route.value.at);
  /** As it is at the moment that is looked at. */
  readonly shown = computed(() => (this.moment.value === null ? this.state.value : (this.past.value?.state ?? null)));
  /** How many rows of the record there were then. */
  readonly count = computed(() => {
    void this.record.version.value;
    return this.record.countTo(this.moment.value);
  });
  readonly link = computed(() => this.feed.value?.link.value ?? "connecting");
  readonly loaded = computed(() => this.history.value?.progress.value ?? { done: false, part: 0 });

  private live: Telling = { story: new Story(), from: -1, fed: 0 };
  /** Up to the moment that was looked at last: whoever plays on goes on from there. */
  private then: Telling = { story: new Story(), from: -1, fed: 0 };
  /** The story as far as it is told at that moment; the version tells one from the next. */
  readonly story = computed(() => {
    void this.record.version.value;
    const { facts } = this.record;
    const count = facts.countTo(this.moment.value);
    const first = facts.first?.sequence ?? 0;
    if (this.moment.value !== null) {
      if (this.then.from !== first || this.then.fed > count) this.then = { story: new Story(), from: this.loaded.value.done ? first : -1, fed: 0 };
      return { items: told(this.then, facts, count), version: count };
    }
    const begun = this.live.from !== -1;
    // What was there before is put in front once it is there whole: each piece of it would move everything.
    if (this.live.from !== first && (this.loaded.value.done || !begun)) this.live = { story: new Story(), from: first, fed: 0 };
    return { items: this.live.from === first ? told(this.live, facts, count) : this.live.story.items, version: count };
  });

  /** Every event from now on, whole. Returns what ends it. */
  listen(take: (frame: EventFrame) => void): () => void {
    this.listeners.add(take);
    return () => this.listeners.delete(take);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.refreshing);
    clearTimeout(this.retrying);
    this.feed.value?.close();
    this.history.value?.close();
    this.ends.forEach((end) => end());
  }

  /** Its state anew, soon: a burst of events asks once. */
  refresh(): void {
    if (this.closed) return;
    this.refreshing ??= setTimeout(() => {
      this.refreshing = undefined;
      void this.reload();
    }, REFRESH_MS);
  }

  private async reload(): Promise<void> {
    try {
      const { state } = await getStateAt(this.id, null);
      // An answer may be overtaken by a later one.
      if (state.applied_sequence >= (this.state.peek()?.applied_sequence ?? 0)) this.state.value = state;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
  }

  private async open(): Promise<void> {
    try {
      const found = await getSandbox(this.id);
      if (this.closed) return;
      this.state.value = found.sandbox;
      this.trouble.value = null;
      this.follow(found);
    } catch (error) {
      if (isAbort(error) || this.closed) return;
      this.trouble.value = { words: wordsOf(error), gone: isGone(error) };
      // One that was just asked for is not there yet.
      this.retrying = setTimeout(() => void this.open(), RETRY_MS);
    }
  }

  private follow({ sandbox, events: recent, lacking, head_sequence: head }: SandboxDetail): void {
    lacking.forEach((lack) => this.lacks(lack));
    for (const { sequence, event } of recent) if (event) this.record.append(rowOf(sequence, event));
    const path = `/ws${pathOf(this.id)}`;
    const until = recent[0]?.sequence ?? head + 1;
    this.history.value = new History(this.id, sandbox.first_sequence, until, ({ sequence, event }) => this.record.fill(rowOf(sequence, event)), (lack) => this.lacks(lack));
    this.feed.value = new Feed({
      path,
      from: head + 1,
      onEvent: (frame) => this.take(frame),
      onFrame: (frame) => this.hear(frame),
      onCut: this.onCut,
      onBroken: () => void loadSession(),
    });
  }

  private hear(frame: Frame): void {
    if (frame.type === "connected") this.refresh();
    else if (frame.type === "error" && frame.first_sequence !== undefined && frame.last_sequence !== undefined) this.lacks({ first_sequence: frame.first_sequence, last_sequence: frame.last_sequence });
    else if (frame.type === "error") tell(frame.message, "failed");
  }

  private lacks({ first_sequence: first, last_sequence: last }: Lack): void {
    const words = first === last ? `event ${first}` : `events ${first} to ${last}`;
    if (!this.lacking.peek().includes(words)) this.lacking.value = [...this.lacking.peek(), words];
  }

  private take(frame: EventFrame): void {
    this.record.append(rowOf(frame.sequence, frame.data));
    this.listeners.forEach((listener) => listener(frame));
    const moving = MOVING.has(familyOf(frame.event_type)) || /^command\.(?!output|input)/.test(frame.event_type);
    if (moving) this.refresh();
  }
}

interface Telling {
  story: Story;
  /** The first sequence of what it is told from. */
  from: number;
  /** How many rows of it. */
  fed: number;
}

function told(telling: Telling, facts: Shelf, count: number): Item[] {
  for (const row of facts.rows(telling.fed, count)) telling.story.feed(row);
  telling.fed = count;
  return telling.story.items;
}
