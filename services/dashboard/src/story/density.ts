/** What happened when, in brief: for the strip above the time slider. */

import { familyOf } from "./row";
import type { Shelf } from "./shelf";

export type Colour = "agent" | "command" | "file" | "network" | "trouble" | "other";
const LOUD = /\.(failed|error|died|lost|denied|rejected|unhealthy|limit_exceeded|escalated|intervention)$/;

export interface Bin {
  /** Of the whole, how much of each. */
  parts: Partial<Record<Colour, number>>;
  total: number;
}

const known = new Map<string, Colour>();

export function colourOfType(type: string): Colour {
  const found = known.get(type) ?? colour(type);
  if (known.size < 1000) known.set(type, found);
  return found;
}

function colour(type: string): Colour {
  if (LOUD.test(type)) return "trouble";
  const family = familyOf(type);
  if (family === "agent" || family === "user" || family === "guardian") return "agent";
  if (family === "command" || family === "tool") return "command";
  if (family === "file" || family === "network") return family;
  return "other";
}

/** The rows in as many bins as there are, each of the same number of rows. */
export function binsOf(record: Shelf, count: number): Bin[] {
  const wanted = Math.max(1, Math.min(count, record.length));
  const bins: Bin[] = Array.from({ length: wanted }, () => ({ parts: {}, total: 0 }));
  const step = record.length / wanted;
  for (let index = 0; index < record.length; index += 1) {
    const row = record.at(index);
    const bin = bins[Math.min(wanted - 1, Math.floor(index / step))];
    if (row === undefined || bin === undefined) continue;
    const colour = colourOfType(row.type);
    bin.parts[colour] = (bin.parts[colour] ?? 0) + 1;
    bin.total += 1;
  }
  return bins;
}
