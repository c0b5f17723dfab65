/** Plays what happened again, from the moment that is looked at, at any speed. */

import { signal } from "@preact/signals";
import type { Shelf } from "../story/shelf";

/** Some to choose from; any other between the first and the last will do. */
export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 64, 256, 1000];
export const [SLOWEST, FASTEST] = [0.1, 1000];
/** Nobody wants to sit through a night in which nothing happened. */
const LONGEST_PAUSE_MS = 2000;
const TICK_MS = 60;

export interface Deck {
  record: Shelf;
  /** The sequence that is looked at; null = now. */
  moment: () => number | null;
  show: (sequence: number | null) => void;
}

export class Player {
  readonly playing = signal(false);
  readonly speed = signal(4);
  private timer: ReturnType<typeof setInterval> | undefined;
  /** How much of the pause before the next event has passed. */
  private waited = 0;
  private last = 0;

  constructor(private readonly deck: Deck) {}

  /** Whether it is a speed. */
  setSpeed(wanted: number): boolean {
    if (!(wanted >= SLOWEST && wanted <= FASTEST)) return false;
    this.speed.value = wanted;
    return true;
  }

  toggle(): void {
    if (this.playing.value) this.stop();
    else this.start();
  }

  start(): void {
    if (this.deck.record.length === 0) return;
    if (this.deck.moment() === null) this.deck.show(this.deck.record.first?.sequence ?? null);
    this.playing.value = true;
    this.waited = 0;
    this.last = performance.now();
    this.timer = setInterval(() => this.tick(performance.now()), TICK_MS);
  }

  stop(): void {
    this.playing.value = false;
    clearInterval(this.timer);
  }

  private tick(now: number): void {
    const moment = this.deck.moment();
    if (moment === null) {
      this.stop();
      return;
    }
    this.waited += (now - this.last) * this.speed.value;
    this.last = now;
    const { index, left } = advance(this.deck.record, this.deck.record.countTo(moment) - 1, this.waited);
    this.waited = left;
    const row = this.deck.record.at(index);
    if (index >= this.deck.record.length - 1) {
      this.stop();
      this.deck.show(null);
    } else if (row !== undefined && row.sequence !== moment) this.deck.show(row.sequence);
  }
}

/** How far one comes from a row in so many milliseconds, long pauses cut short; and what is left of them. */
export function advance(record: Shelf, from: number, ms: number): { index: number; left: number } {
  let index = from;
  let left = ms;
  for (;;) {
    const here = record.at(index);
    const next = record.at(index + 1);
    if (next === undefined) return { index, left: 0 };
    const pause = here === undefined ? 0 : Math.min(Math.max(next.time - here.time, 0), LONGEST_PAUSE_MS);
    if (left < pause) return { index, left };
    left -= pause;
    index += 1;
  }
}
