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

export class SandboxesStore {
  readonly all = signal<SandboxState[] | null>(null);
  readonly trouble = signal<string | null>(null);
  readonly removedToo = signal(false);
  private readonly feed: Feed;
  private waiting: ReturnType<typeof setTimeout> | undefined;
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

  refresh(ms = REFRESH_MS): void {
    if (this.closed || this.waiting !== undefined) return;
    this.waiting = setTimeout(() => void this.load(), ms);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.waiting);
    this.feed.close();
  }

  private async load(): Promise<void> {
    try {
      this.all.value = await listSandboxes(this.removedToo.value);
      this.trouble.value = null;
    } catch (error) {
      this.trouble.value = isGone(error) ? "This gateway has no list of sandboxes." : wordsOf(error);
    }
    this.waiting = undefined;
    if (this.trouble.value !== null) this.refresh(RETRY_MS);
  }
}
