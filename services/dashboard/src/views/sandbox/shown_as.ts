/** Bytes of a file as lines, where they are text. */

export type Shown = { kind: "text"; lines: string[] } | { kind: "binary"; size: number };

const LONGEST_LINE = 4000;

export function shownAs(content: Uint8Array): Shown {
  if (content.subarray(0, 8000).includes(0)) return { kind: "binary", size: content.length };
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    const lines = text === "" ? [] : (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
    return { kind: "text", lines: lines.map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line)) };
  } catch {
    return { kind: "binary", size: content.length };
  }
}
