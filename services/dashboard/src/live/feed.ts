/** The log as it grows, in order and without a gap: a WebSocket that comes back and goes on behind what it last saw. */

import { signal, type ReadonlySignal } from "@preact/signals";
import type { Lack } from "../api/types";
import { waitMs } from "./backoff";
import { readFrame, type EventFrame, type Frame } from "./frames";

export type Link = "connecting" | "open" | "broken" | "closed";

/** So long without a word, and the line is dead though nobody said so: heartbeats come every 30 seconds. */
const SILENCE_MS = 75_000;
const LISTEN_MS = 5000;
const LOG_GAP = "LOG_GAP";

export interface FeedOptions {
  /** As in `/ws/sandboxes/sb-1`. */
  path: string;
  /** The first sequence that is wanted; null = what happens from now on. */
  from: number | null;
  /** Never to go on behind what it last saw: whoever looks at everything anew with each `connected` misses nothing. */
  always_from_now?: boolean;
  filters?: Record<string, string>;
  onEvent: (frame: EventFrame) => void;
  /** Besides events; also each `connected`. */
  onFrame?: (frame: Frame) => void;
  /** The log has lost its end, of which something was seen here: other events have those sequences from now on. */
  onCut?: (lost: Lack) => void;
  /** After a connection failed: whoever is not let in any more finds out so. */
  onBroken?: () => void;
  open?: (url: string) => WebSocket;
}

export class Feed {
  private readonly state = signal<Link>("connecting");
  private next: number | null;
  private socket: WebSocket | null = null;
  private attempt = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private readonly watch: ReturnType<typeof setInterval>;
  private heardAt = Date.now();
  private over = false;

  constructor(private readonly options: FeedOptions) {
    this.next = options.from;
    addEventListener("online", this.hurry);
    this.watch = setInterval(() => this.listen(), LISTEN_MS);
    this.connect();
  }

  get link(): ReadonlySignal<Link> {
    return this.state;
  }

  /** Whether it went out: while the line is broken nothing does, and whoever typed it must know. */
  send(frame: object): boolean {
    if (this.socket?.readyState !== 1) return false;
    this.socket.send(JSON.stringify(frame));
    return true;
  }

  close(): void {
    this.over = true;
    this.state.value = "closed";
    removeEventListener("online", this.hurry);
    clearTimeout(this.retry);
    clearInterval(this.watch);
    this.socket?.close();
  }

  /** Now, and not when the wait is over. */
  readonly hurry = (): void => {
    if (this.socket !== null) return;
    clearTimeout(this.retry);
    this.connect();
  };

  private connect(): void {
    const socket = (this.options.open ?? ((url) => new WebSocket(url)))(this.address());
    this.socket = socket;
    socket.onmessage = (message) => this.take(socket, String(message.data));
    socket.onclose = () => this.broken(socket);
    this.heardAt = Date.now();
  }

  private address(): string {
    const query = new URLSearchParams(this.options.filters);
    if (this.next !== null) query.set("from", String(this.next));
    const origin = location.origin.replace(/^http/, "ws");
    return `${origin}${this.options.path}${query.size ? `?${query}` : ""}`;
  }

  private take(socket: WebSocket, text: string): void {
    if (this.over || socket !== this.socket) return;
    this.heardAt = Date.now();
    const frame = readFrame(text);
    if (frame === null) return;
    if (frame.type === "event") {
      this.event(frame);
      return;
    }
    if (frame.type === "connected") this.connected(frame.head_sequence);
    this.options.onFrame?.(frame);
    if (frame.type === "error" && frame.code === LOG_GAP) this.lacks(frame);
  }

  /** What is missing up to where it goes on was there when it was seen; a gap before that changes nothing here. */
  private lacks({ first_sequence: first, last_sequence: last }: Partial<Lack>): void {
    if (first === undefined || last === undefined || this.next === null || first >= this.next || last !== this.next - 1) return;
    this.next = first;
    this.options.onCut?.({ first_sequence: first, last_sequence: last });
  }

  private connected(head: number): void {
    this.attempt = 0;
    // From now on there is a place to come back to, even if nothing happens before the line breaks.
    if (!this.options.always_from_now) this.next ??= head + 1;
    this.state.value = "open";
  }

  private event(frame: EventFrame): void {
    if (this.next !== null && frame.sequence < this.next) return;
    if (!this.options.always_from_now) this.next = frame.sequence + 1;
    this.options.onEvent(frame);
  }

  private broken(socket: WebSocket): void {
    if (this.over || socket !== this.socket) return;
    this.socket = null;
    this.state.value = "broken";
    this.options.onBroken?.();
    this.retry = setTimeout(() => this.connect(), waitMs(this.attempt, Math.random()));
    this.attempt += 1;
  }

  private listen(): void {
    const socket = this.socket;
    if (socket === null || Date.now() - this.heardAt < SILENCE_MS) return;
    socket.close();
    this.broken(socket);
  }
}
