/** All that one command wrote, in order: played up to any moment without asking again. Only where it is not much. */

import { get } from "../api/http";
import { pathOf } from "../api/sandboxes";
import type { LogEvent, LoggedEvent, SandboxState } from "../api/types";
import { number, object, text } from "../story/row";

const MOST_BYTES = 1_500_000;
/** That a frame takes beside what was written. */
const OVERHEAD = 100;
const PAGE = 1000;
const MOST_PAGES = 4;

export interface Frame {
  sequence: number;
  data: string | Uint8Array | null;
  resize: { rows: number; cols: number } | null;
}

export function frameOf(sequence: number, event: LogEvent): Frame | null {
  const fact = event.data;
  if (event.type === "command.output") return { sequence, data: bytesOf(text(fact, "data"), text(fact, "encoding")), resize: null };
  const size = object(fact, "resize");
  const rows = number(size, "rows");
  const cols = number(size, "cols");
  return rows === null || cols === null ? null : { sequence, data: null, resize: { rows, cols } };
}

function bytesOf(data: string, encoding: string): string | Uint8Array {
  return encoding === "base64" ? Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0)) : data;
}

/** How much memory it takes, about. */
export function sizeOf({ data }: Frame): number {
  return (data?.length ?? 0) + OVERHEAD;
}

export class Reel {
  private readonly frames: Frame[] = [];
  private size = 0;

  /** There is more of it than should be kept. */
  get full(): boolean {
    return this.size > MOST_BYTES;
  }

  get last(): number {
    return this.frames.at(-1)?.sequence ?? 0;
  }

  add(frame: Frame): boolean {
    if (frame.sequence <= this.last) return false;
    this.frames.push(frame);
    this.size += sizeOf(frame);
    return true;
  }

  /** What is behind one sequence, up to another; null = all. */
  *between(after: number, upTo: number | null): Generator<Frame> {
    for (let index = this.frames.findLastIndex((each) => each.sequence <= after) + 1; index < this.frames.length; index += 1) {
      const frame = this.frames[index] as Frame;
      if (upTo !== null && frame.sequence > upTo) return;
      yield frame;
    }
  }
}

/** Null where there is too much of it: then a screen is asked for. */
export async function loadReel(sandbox: string, exec: string, first: number, upTo: number, state: SandboxState | null, stop: AbortSignal): Promise<Reel | null> {
  const known = state?.running[exec] ?? state?.recent.find((each) => each.exec === exec);
  if (known && known.totals.stdout + known.totals.stderr + known.totals.pty > MOST_BYTES) return null;
  const reel = new Reel();
  let from = first;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const found = await get<{ events: LoggedEvent[]; next: number; more: boolean }>(
      `${pathOf(sandbox)}/events?type=command.output&type=command.input&from=${from}&limit=${PAGE}`, {}, stop,
    );
    let ended = !found.more;
    for (const { sequence, event } of found.events) {
      ended ||= sequence > upTo;
      const frame = sequence <= upTo && event?.data["exec"] === exec ? frameOf(sequence, event) : null;
      if (frame) reel.add(frame);
      if (reel.full) return null;
    }
    if (ended || found.next > upTo) return reel;
    from = found.next;
  }
  return null;
}
