/** An event as the page keeps it: small enough that a hundred thousand of them are no burden. */

import type { LogEvent } from "../api/types";

export interface Row {
  sequence: number;
  /** Milliseconds since 1970. */
  time: number;
  type: string;
  source: string;
  correlation: string | null;
  data: Record<string, unknown>;
  /** Something was left out of `data`: the log has it whole. */
  cut: boolean;
}

const LONGEST = 16_000;
const GLIMPSE = 200;

export function rowOf(sequence: number, event: LogEvent): Row {
  const slim = event.type === "command.output" || event.type === "command.input";
  const [data, cut] = shortened(event.data, slim ? GLIMPSE : LONGEST);
  return {
    sequence,
    time: Date.parse(event.time),
    type: event.type,
    source: event.source,
    correlation: event.correlationid ?? null,
    data,
    cut,
  };
}

export function familyOf(type: string): string {
  return type.slice(0, type.indexOf("."));
}

function shortened(data: Record<string, unknown>, most: number): [Record<string, unknown>, boolean] {
  let cut = false;
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(data)) {
    const long = typeof value === "string" && value.length > most;
    kept[key] = long ? beginning(value, most) : value;
    cut ||= long;
  }
  return cut ? [kept, true] : [data, false];
}

/** A string of its own: a slice would keep all that it is a slice of. */
function beginning(long: string, most: number): string {
  return JSON.parse(JSON.stringify(long.slice(0, most))) as string;
}

/** Fields of data that anybody may have written: what is not of the kind that is asked for is as good as absent. */
export function text(data: Record<string, unknown>, key: string): string {
  const value = data[key];
  return typeof value === "string" ? value : "";
}

export function number(data: Record<string, unknown>, key: string): number | null {
  const value = data[key];
  return typeof value === "number" ? value : null;
}

export function object(data: Record<string, unknown>, key: string): Record<string, unknown> {
  const value = data[key];
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

export function list(data: Record<string, unknown>, key: string): Record<string, unknown>[] {
  const value = data[key];
  return Array.isArray(value) ? value.filter((each) => typeof each === "object" && each !== null) : [];
}

export function texts(data: Record<string, unknown>, key: string): string[] {
  const value = data[key];
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];
}
