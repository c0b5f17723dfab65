/** What left a sandbox and what was refused, one row each. */

import { list, number, text, type Row } from "./row";

export interface Request {
  key: string;
  sequence: number;
  time: number;
  /** What became of it: the kind of the event. */
  verdict: string;
  method: string;
  host: string;
  port: number | null;
  path: string;
  status: number | null;
  sent: number;
  received: number;
  reason: string;
  count: number;
}

export function requestsOf(rows: Iterable<Row>): Request[] {
  const found: Request[] = [];
  for (const row of rows) {
    const each = row.type === "network.batch" ? list(row.data, "requests") : [row.data];
    each.forEach((data, index) => found.push(request(row, data, index)));
  }
  return found;
}

function request(row: Row, data: Record<string, unknown>, index: number): Request {
  return {
    key: `${row.sequence}.${index}`, sequence: row.sequence, time: row.time, verdict: row.type === "network.batch" ? "allowed" : row.type.slice("network.".length),
    method: text(data, "method"), host: text(data, "host"), port: number(data, "port"), path: text(data, "path"), status: number(data, "status"),
    sent: number(data, "sent_bytes") ?? 0, received: number(data, "received_bytes") ?? 0,
    reason: text(data, "reason") || text(data, "error") || text(data, "way"), count: number(data, "count") ?? 1,
  };
}
