/** All sandboxes that somebody may see, kept current. */

import { computed, signal } from "@preact/signals";
import { isGone } from "../api/http";
import { wordsOf } from "../api/problem";
import { listSandboxes } from "../api/sandboxes";
import type { SandboxState } from "../api/types";
import { Feed } from "../live/feed";
import { loadSession } from "./session";

const REFRESH_MS = 250;
const RETRY_MS = 2000;
/** So many times as long as it took to read them, nobody asks for them again. */
const BREAK = 3;

export class SandboxesStore {
  readonly all = signal<SandboxState[] | null>(null);
  readonly trouble = signal<string | null>(null);
  readonly removedToo = signal(false);
  private readonly feed: Feed;
  private waiting: ReturnType<typeof setTimeout> | undefined;
  private loading = false;
  /** Something happened while they were read, and may not be in what was read. */
  private again = false;
  private pace = REFRESH_MS;
  private closed = false;

  constructor() {
    this.feed = new Feed({
      path: "/ws/events",
      from: null,
      // A log that is divided has a sequence for each part.
      always_from_now: true,
      filters: { types: "sandbox,health,agent,user,network.asked,network.approved,network.rejected" },
      onEvent: () => this.refresh(),
      onFrame: (frame) => {
        if (frame.type === "connected") this.refresh(0);
      },
      onBroken: () => void loadSession(),
    });
    this.refresh(0);
  }

  readonly link = computed(() => this.feed.link.value);

  showRemoved(wanted: boolean): void {
    this.removedToo.value = wanted;
    this.refresh(0);
  }

  refresh(ms = this.pace): void {
    this.again = true;
    if (this.closed || this.loading) return;
    this.waiting ??= setTimeout(() => void this.load(), ms);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.waiting);
    this.feed.close();
  }

  private async load(): Promise<void> {
    const begun = performance.now();
    [this.waiting, this.loading, this.again] = [undefined, true, false];
    try {
      this.all.value = await listSandboxes(this.removedToo.value);
      this.trouble.value = null;
    } catch (error) {
      this.trouble.value = isGone(error) ? "This gateway has no list of sandboxes." : wordsOf(error);
    }
    this.loading = false;
    // Thousands of them take a while to read, and something always happens in one of them.
    this.pace = Math.max(REFRESH_MS, BREAK * (performance.now() - begun));
    if (this.trouble.value !== null) this.refresh(RETRY_MS);
    else if (this.again) this.refresh();
  }
}
