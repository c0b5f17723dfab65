/** What happened before somebody came: read once, page by page, from the first event to where the live feed began. */

import { signal, type ReadonlySignal } from "@preact/signals";
import { get, isAbort } from "../api/http";
import { pathOf } from "../api/sandboxes";
import type { Lack, LoggedEvent } from "../api/types";
import { waitMs } from "./backoff";

export interface Progress {
  done: boolean;
  /** Between 0 and 1. */
  part: number;
}

interface Page {
  events: LoggedEvent[];
  lacking: Lack[];
  next: number;
  more: boolean;
}

/** In thousands: a hundred thousand messages of a WebSocket would keep a browser busy for much longer. */
const PAGE = 1000;

export class History {
  private readonly state = signal<Progress>({ done: false, part: 0 });
  private readonly stop = new AbortController();

  /** Of the sequences from `from` up to but without `until`. */
  constructor(
    private readonly sandbox: string,
    private readonly from: number,
    private readonly until: number,
    private readonly onEvent: (logged: LoggedEvent) => void,
    private readonly onLack: (lack: Lack) => void,
  ) {
    void this.read();
  }

  get progress(): ReadonlySignal<Progress> {
    return this.state;
  }

  close(): void {
    this.stop.abort();
  }

  private async read(): Promise<void> {
    let next = this.from;
    let failures = 0;
    while (next < this.until && !this.stop.signal.aborted) {
      const page = await this.page(next);
      if (page === null) {
        // The gateway is away: it goes on from the same place.
        await new Promise((done) => setTimeout(done, waitMs(failures++, Math.random())));
        continue;
      }
      failures = 0;
      for (const each of page.events) if (each.sequence < this.until && each.event) this.onEvent(each);
      page.lacking.forEach(this.onLack);
      next = page.more ? page.next : this.until;
      this.state.value = { done: false, part: Math.min(1, (next - this.from) / (this.until - this.from)) };
    }
    if (!this.stop.signal.aborted) this.state.value = { done: true, part: 1 };
  }

  /** Null where it could not be had now. */
  private async page(from: number): Promise<Page | null> {
    try {
      return await get<Page>(`${pathOf(this.sandbox)}/events`, { from, limit: PAGE }, this.stop.signal);
    } catch (error) {
      if (isAbort(error)) return { events: [], lacking: [], next: this.until, more: false };
      return null;
    }
  }
}
