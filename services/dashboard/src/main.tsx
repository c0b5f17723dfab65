import "./style/tokens.css";
import "./style/base.css";
import "./style/parts.css";
import "./style/shell.css";
import "./style/list.css";
import "./style/sandbox.css";
import "./style/terminal.css";
import "./style/records.css";
import "./style/use.css";
import "./style/agent.css";
import "./style/diff.css";
import "./style/files.css";
import "./style/slider.css";
import "@xterm/xterm/css/xterm.css";
import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import { App } from "./app";
import { loadSession } from "./state/session";

/** Who looks is asked first: whoever is not let in sees that at once, and nothing else is tried. */
async function begin(): Promise<void> {
  await loadSession();
  const place = document.getElementById("app");
  if (place) render(<App />, place);
  requestAnimationFrame(() => (document.documentElement.dataset.ready = "yes"));
}

void begin();
