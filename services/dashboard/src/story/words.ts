/** Numbers and names as people say them. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** As the command line says it; the megabytes of a specification are these, too. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function counted(count: number, noun: string): string {
  return `${count.toLocaleString()} ${noun}${count === 1 ? "" : "s"}`;
}

/** How long ago, roughly. */
export function age(ms: number): string {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

export function cost(usd: number): string {
  if (usd === 0) return "–";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const DAY = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

export function clock(time: number): string {
  return Number.isFinite(time) ? CLOCK.format(time) : "–";
}

/** With its day, where that is not today's. */
export function moment(time: number, now: number): string {
  const [then, today] = [time, now].map((each) => (Number.isFinite(each) ? DAY.format(each) : ""));
  return then === today ? clock(time) : `${then} ${clock(time)}`.trim();
}

const SHELLS = ["sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/bash"];

/** A command line, as somebody would have typed it. */
export function commandLine(argv: string[]): string {
  const [program = "", flag = "", line] = argv;
  if (argv.length === 3 && SHELLS.includes(program) && (flag === "-c" || flag === "-lc")) return line ?? "";
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}

export function exitWords(exit: Record<string, unknown> | { code: number | null; signal: number | null } | null): string {
  if (exit === null) return "";
  const { code, signal } = exit as { code?: number | null; signal?: number | null };
  return typeof signal === "number" ? `signal ${signal}` : typeof code === "number" ? `exit ${code}` : "";
}

/** What somebody decides upon: nothing in it hides the rest of it, or turns it around. */
export function plainly(said: string): string {
  return said.replace(/[\p{Cf}\p{Cc}\p{Zl}\p{Zp}]/gu, (each) => {
    if (each === "\n" || each === "\t") return each;
    return `⟨U+${each.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** What a tool call is about: the field that says most. */
const SUBJECTS = ["command", "shell", "argv", "path", "file_path", "pattern", "url", "query", "question", "description"];

export function subjectOf(input: Record<string, unknown>): string {
  for (const key of SUBJECTS) {
    const value = input[key];
    if (typeof value === "string" && value) return value;
    if (Array.isArray(value) && value.length) return value.map(String).join(" ");
  }
  const rest = JSON.stringify(input);
  return rest === "{}" ? "" : rest.slice(0, 300);
}
