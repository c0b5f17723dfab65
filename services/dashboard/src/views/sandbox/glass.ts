/** A terminal that shows what a program wrote and does nothing else that the program asks for. */

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import type { Screen } from "../../api/types";
import type { Size } from "../../api/commands";
import { colourOf } from "../../ui/colour";

const SCROLLBACK = 5000;
/** Titles, links, the clipboard, colours of the page: not for what runs in a sandbox. */
const OSC = [0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 52, 104, 110, 111, 112, 133, 633, 777, 1337];

export class Glass {
  readonly terminal: Terminal;
  private readonly fit = new FitAddon();
  private escaped = false;
  private gone = false;
  /** Writes that were not taken in yet, and how much is in them. */
  private writes = 0;
  private held = 0;

  constructor(place: HTMLElement, readonly pty: boolean, onType: (data: string) => void) {
    this.terminal = new Terminal({
      convertEol: !pty,
      cursorBlink: false,
      disableStdin: true,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
      fontSize: 13,
      lineHeight: 1.2,
      scrollback: SCROLLBACK,
      minimumContrastRatio: 4.5,
      theme: themed(),
    });
    silence(this.terminal);
    this.terminal.loadAddon(this.fit);
    this.terminal.open(place);
    this.terminal.onData(onType);
    this.terminal.attachCustomKeyEventHandler((event) => !this.leaves(event));
  }

  /** What was there at a moment takes the place of all that is shown. */
  show(screen: Screen): void {
    this.clear(this.pty ? screen : null);
    const above = screen.scrollback.map((line) => `${line}\r\n`).join("");
    const last = screen.lines.findLastIndex((line) => line !== "");
    const lines = screen.lines.slice(0, Math.max(last, screen.cursor_y) + 1).join("\r\n");
    const up = Math.max(last, screen.cursor_y) - screen.cursor_y;
    const home = `${up > 0 ? `\x1b[${up}A` : ""}\r${screen.cursor_x > 0 ? `\x1b[${screen.cursor_x}C` : ""}`;
    const alternate = screen.alternate ? "\x1b[?1049h\x1b[H" : "";
    this.write(`${above}${alternate}${lines}${home}${screen.cursor_hidden ? "\x1b[?25l" : ""}`);
  }

  /** As a terminal is before anything was written. */
  clear(size: Size | null): void {
    this.after(() => this.terminal.reset());
    if (size !== null) this.resize(size);
  }

  write(data: string | Uint8Array): void {
    this.queue(data, () => undefined);
  }

  /** How much was written and is not taken in yet. Past some 50 MB a terminal drops what it is given. */
  get pending(): number {
    return this.held;
  }

  /** Done once all that was written before is taken in. */
  after(work: () => void): void {
    if (this.writes === 0) work();
    else this.queue("", work);
  }

  private queue(data: string | Uint8Array, work: () => void): void {
    this.writes += 1;
    this.held += data.length;
    this.terminal.write(data, () => {
      this.writes -= 1;
      this.held -= data.length;
      if (!this.gone) work();
    });
  }

  typing(allowed: boolean): void {
    this.terminal.options.disableStdin = !allowed;
    this.terminal.options.cursorBlink = allowed;
  }

  /** As large as there is room for; null while it has no place on the page. */
  get room(): Size | null {
    const found = this.fit.proposeDimensions();
    if (found === undefined || !Number.isInteger(found.rows) || !Number.isInteger(found.cols)) return null;
    return { rows: Math.max(2, found.rows), cols: Math.max(10, found.cols) };
  }

  resize({ rows, cols }: Size): void {
    this.after(() => {
      if (this.terminal.rows !== rows || this.terminal.cols !== cols) this.terminal.resize(cols, rows);
    });
  }

  /** Somebody must be able to leave by keyboard: by Tab, and where that is for the program, by Escape before it. */
  private leaves(event: KeyboardEvent): boolean {
    if (event.type !== "keydown" || event.key === "Shift") return false;
    const leaving = event.key === "Tab" && (this.escaped || this.terminal.options.disableStdin === true);
    this.escaped = event.key === "Escape";
    return leaving;
  }

  dispose(): void {
    this.gone = true;
    this.terminal.dispose();
  }
}

/** Also no answers: a program that asks the terminal what it is would have them typed into it by everybody who looks. */
function silence(terminal: Terminal): void {
  const { parser } = terminal;
  for (const code of OSC) parser.registerOscHandler(code, () => true);
  for (const final of ["c", "n", "t"]) parser.registerCsiHandler({ final }, () => true);
  for (const prefix of ["?", ">", "="]) {
    parser.registerCsiHandler({ prefix, final: "n" }, () => true);
    parser.registerCsiHandler({ prefix, final: "c" }, () => true);
  }
  parser.registerCsiHandler({ prefix: ">", final: "q" }, () => true);
  parser.registerCsiHandler({ intermediates: "$", final: "p" }, () => true);
  parser.registerCsiHandler({ prefix: "?", intermediates: "$", final: "p" }, () => true);
  parser.registerDcsHandler({ intermediates: "$", final: "q" }, () => true);
  parser.registerDcsHandler({ intermediates: "+", final: "q" }, () => true);
}

function themed() {
  const ground = colourOf("terminal");
  return {
    background: ground, foreground: colourOf("terminal-ink"), cursor: "#8fd6ae", cursorAccent: ground, selectionBackground: "#3b5a4a",
    black: "#2b3230", red: "#f2877c", green: "#86d3a2", yellow: "#e6bd6a", blue: "#86b7ea", magenta: "#c9a6ea", cyan: "#7fd0cf", white: "#dfe6e2",
    brightBlack: "#84918a", brightRed: "#ff9d93", brightGreen: "#a0e5b8", brightYellow: "#f3cf85", brightBlue: "#a3caf5", brightMagenta: "#dcc0f7", brightCyan: "#9ae3e2", brightWhite: "#ffffff",
  };
}
