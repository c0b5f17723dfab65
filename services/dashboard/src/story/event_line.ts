/** One line about an event, for lists. */

import { list, number, object, text, texts, type Row } from "./row";
import { bytes, commandLine, duration, exitWords, subjectOf } from "./words";

export type Tone = "plain" | "good" | "bad" | "warn" | "quiet";

export function toneOf(type: string, data: Record<string, unknown> = {}): Tone {
  if (/\.(failed|error|died|lost|denied|rejected|timed_out|overflow|damaged|escalated)$/.test(type)) return "bad";
  if (type.startsWith("dead_letter")) return "bad";
  if (/\.(asked|approval_requested|unhealthy|limit_exceeded|intervention|cancelled|recovering|interrupted)$/.test(type)) return "warn";
  if (/\.(started|created|approved|healthy|recovered|resumed)$/.test(type)) return "good";
  if (type === "command.completed") return number(object(data, "exit"), "code") === 0 ? "good" : "warn";
  if (/\.(output|input|thinking|metrics|manifest|ready|checkpoint)$/.test(type)) return "quiet";
  return "plain";
}

const LONGEST = 400;

export function eventLine(row: Row): string {
  // What is taken out of it is mostly short; what is behind it nobody would see.
  return one(words(row.type, row.data).slice(0, 4 * LONGEST)).slice(0, LONGEST);
}

function words(type: string, data: Record<string, unknown>): string {
  switch (type.slice(0, type.indexOf("."))) {
    case "command":
      return command(type, data);
    case "file":
      return file(type, data);
    case "network":
      return network(type, data);
    case "tool":
      return `${text(data, "tool")} ${subjectOf(object(data, "arguments"))} ${text(object(data, "failure"), "message")}`;
    case "dead_letter":
      return `${text(object(data, "reason"), "message")} · ${text(data, "subject")}`;
    default:
      return said(data);
  }
}

function command(type: string, data: Record<string, unknown>): string {
  switch (type) {
    case "command.started":
      return `$ ${commandLine(texts(data, "argv"))}`;
    case "command.input":
      return resized(object(data, "resize")) || `stdin ${bytes(number(data, "size") ?? 0)}  ${text(data, "data")}`;
    case "command.output":
      return `${text(data, "stream")} ${bytes(number(data, "size") ?? 0)}  ${text(data, "data")}`;
    case "command.rejected":
      return text(object(data, "failure"), "message");
    case "command.lost":
      return `${text(data, "cause")}: ${text(data, "detail")}`;
    default: {
      const how = exitWords(object(data, "exit"));
      return [how, `in ${duration(number(data, "duration_ms") ?? 0)}`, text(data, "cause")].filter(Boolean).join(", ");
    }
  }
}

function resized(size: Record<string, unknown>): string {
  const rows = number(size, "rows");
  return rows === null ? "" : `the terminal is now ${number(size, "cols")} by ${rows}`;
}

function file(type: string, data: Record<string, unknown>): string {
  if (type === "file.batch") {
    const changes = list(data, "changes");
    const names = changes.slice(0, 5).map((each) => text(each, "path"));
    return `${changes.length} changes: ${names.join(", ")}${changes.length > 5 ? ", …" : ""}`;
  }
  if (type === "file.moved") return `${text(data, "moved_from")} → ${text(data, "path")}`;
  const size = number(object(data, "facts"), "size");
  const path = text(data, "path");
  if (path) return size === null ? `${path} ${said(data)}` : `${path}  ${bytes(size)}`;
  return said(data) || (number(data, "files") === null ? "" : `${number(data, "files")} files`);
}

function network(type: string, data: Record<string, unknown>): string {
  if (type === "network.batch") return `${list(data, "requests").length} requests`;
  const host = text(data, "host");
  if (!host) return said(data);
  const where = `${text(data, "method")} ${host}:${number(data, "port") ?? "?"}${text(data, "path")}`;
  const status = number(data, "status");
  return [where, status === null ? "" : `→ ${status}`, text(data, "reason"), text(data, "error")].filter(Boolean).join(" ");
}

const TELLING = ["rule", "tool", "finding", "text", "prompt", "step", "cause", "detail", "reason", "result", "output", "limit", "instance", "subject", "status"];

function said(data: Record<string, unknown>): string {
  const told = TELLING.map((key) => text(data, key));
  told.push(text(object(data, "failure"), "message"), subjectOfInput(data), spent(data));
  return told.filter(Boolean).join(" · ");
}

function subjectOfInput(data: Record<string, unknown>): string {
  const input = object(data, "input");
  return Object.keys(input).length ? subjectOf(input) : "";
}

function spent(data: Record<string, unknown>): string {
  const tokens = (number(data, "input_tokens") ?? 0) + (number(data, "output_tokens") ?? 0);
  const usd = number(data, "cost_usd");
  return tokens || usd ? `${tokens} tokens, $${(usd ?? 0).toFixed(4)}` : "";
}

function one(text: string): string {
  // Colours and the like of a terminal say nothing in a list.
  return text.replace(/\x1b\[[0-9;?]*[A-Za-z]/g, "").replace(/[\s\x00-\x1f\x7f]+/g, " ").trim();
}
