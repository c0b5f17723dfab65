/** What is around every page: the mark, the theme, the help, and the keys that work everywhere. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { addressOf, go } from "../state/route";
import { mayOperate, session } from "../state/session";
import { nextTheme, theme } from "../state/theme";
import { Bell } from "../ui/bell";
import { Icon } from "../ui/icon";
import { HelpDialog } from "./help";
import { spawning } from "./list/spawning";
import { SpawnDialog } from "./list/spawn_dialog";
import { pressed } from "../state/keys";

const helping = signal(false);
const NEXT = { system: "light", light: "dark", dark: "system" };

export function Shell({ children }: { children: ComponentChildren }) {
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (pressed(event, "?")) helping.value = true;
      else if (pressed(event, "g")) go(addressOf(null));
      else if (pressed(event, "n") && mayOperate.value) spawning.value = true;
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="mark" href={addressOf(null)}><Bell /><span>Cloche</span></a>
        <div class="grow" />
        {session.value && <span class="who faint cut" title={`You are ${session.value.subject}`}>{session.value.subject} · {session.value.role}</span>}
        <button class="button bare icon" aria-label={`Theme: ${theme.value}. Switch to ${NEXT[theme.value]}`} title={`Theme: ${theme.value}`} onClick={nextTheme}>
          <Icon name={theme.value === "system" ? "half" : theme.value === "light" ? "sun" : "moon"} />
        </button>
        <button class="button bare icon" aria-label="Keys and help" title="Keys and help (?)" onClick={() => (helping.value = true)}><Icon name="help" /></button>
      </header>
      <main id="main" tabIndex={-1}>{children}</main>
      {helping.value && <HelpDialog onClose={() => (helping.value = false)} />}
      {spawning.value && <SpawnDialog onClose={() => (spawning.value = false)} />}
    </div>
  );
}
