/** What goes over a WebSocket. */

import type { LogEvent } from "../api/types";

export interface EventFrame {
  type: "event";
  sequence: number;
  event_type: string;
  sandbox_id: string;
  timestamp: string;
  data: LogEvent;
}

export type Frame =
  | EventFrame
  | { type: "connected"; head_sequence: number }
  | { type: "heartbeat"; head_sequence?: number }
  | { type: "subscribed" }
  | { type: "error"; code: string; message: string; id?: string | null; first_sequence?: number; last_sequence?: number }
  | { type: "result"; id: string; command: string; payload: unknown }
  | { type: "pong"; id?: string };

let orders = 0;

/** An order, with an id that no other of this page has; `crypto.randomUUID` is there in secure places only. */
export function orderFrame(command: string, payload: object): object {
  orders += 1;
  return { type: "command", id: String(orders), command, payload };
}

/** None for what is no frame that we know. */
export function readFrame(text: string): Frame | null {
  try {
    const frame = JSON.parse(text) as Frame;
    return typeof frame === "object" && frame !== null && typeof frame.type === "string" ? frame : null;
  } catch {
    return null;
  }
}
