import { useState } from "preact/hooks";
import { moveSandbox, removeSandbox, type Verb } from "../../api/sandboxes";
import type { SandboxState } from "../../api/types";
import { alive, openRun, questions } from "../../state/filter";
import { addressOf, go } from "../../state/route";
import type { SandboxStore } from "../../state/sandbox";
import { mayOperate } from "../../state/session";
import { attempt } from "../../state/toasts";
import { age, cost, counted } from "../../story/words";
import { Dialog } from "../../ui/dialog";
import { Icon, type IconName } from "../../ui/icon";
import { HealthPill, RunPill, StatusPill } from "../../ui/pill";
import { now } from "../../ui/now";
import { ForkDialog } from "./fork_dialog";

interface Action {
  verb: Verb;
  label: string;
  icon: IconName;
}

/** What can be done to it as it is now. */
function actionsOf(state: SandboxState): Action[] {
  switch (state.status) {
    case "running":
      return [{ verb: "pause", label: "Pause", icon: "pause" }, { verb: "stop", label: "Stop", icon: "stop" }, { verb: "snapshot", label: "Snapshot", icon: "camera" }];
    case "paused":
      return [{ verb: "resume", label: "Resume", icon: "play" }, { verb: "stop", label: "Stop", icon: "stop" }];
    case "stopped":
      return [{ verb: "start", label: "Start", icon: "play" }];
    default:
      return [];
  }
}

export function Head({ store }: { store: SandboxStore }) {
  const [asked, setAsked] = useState<"remove" | "fork" | null>(null);
  const state = store.shown.value ?? store.state.value;
  const current = store.state.value;
  if (state === null || current === null) return null;
  const live = store.moment.value === null;
  void store.record.version.value;
  const then = live ? now.value : (store.record.at(store.count.value - 1)?.time ?? now.value);
  const run = openRun(state) ?? state.runs.at(-1);
  return (
    <header class="sandbox-head">
      <a class="button bare icon" href={addressOf(null)} aria-label="All sandboxes"><Icon name="back" /></a>
      <div class="title">
        <div class="row wrap">
          <h1 class="cut" title={state.sandbox}>{state.sandbox}</h1>
          <StatusPill status={state.status} />
          {alive(state) && state.health !== "unknown" && <HealthPill health={state.health} />}
          {run && <RunPill status={run.status} asks={questions(state) > 0} />}
        </div>
        <div class="facts faint">
          <span class="where">{state.isolation} on node {state.node}</span>
          <span>{counted(state.commands, "command")}</span>
          {state.tool_calls > 0 && <span class="calls">{counted(state.tool_calls, "tool call")}</span>}
          {state.tokens > 0 && <span>{counted(state.tokens, "token")}</span>}
          {state.cost_usd > 0 && <span>{cost(state.cost_usd)}</span>}
          <span class="made">made {age(then - Date.parse(state.created_at))} {live ? "ago" : "earlier"}</span>
        </div>
      </div>
      {live && (
        <div class="actions row" role="group" aria-label="The sandbox">
          {actionsOf(current).map(({ verb, label, icon }) => (
            <button key={verb} class="button small" disabled={!mayOperate.value} onClick={() => attempt(() => moveSandbox(store.id, verb), `Asked: ${verb}`)}>
              <Icon name={icon} size={14} /> {label}
            </button>
          ))}
          <button class="button small" disabled={!mayOperate.value} onClick={() => setAsked("fork")}><Icon name="fork" size={14} /> Fork</button>
          {current.status !== "removed" && <button class="button small danger icon" aria-label="Remove" title="Remove" disabled={!mayOperate.value} onClick={() => setAsked("remove")}><Icon name="trash" size={14} /></button>}
        </div>
      )}
      {!live && <button class="button small" disabled={!mayOperate.value} onClick={() => setAsked("fork")}><Icon name="fork" size={14} /> Fork from here</button>}
      {state.error && <p class="why" tabIndex={0}>{state.error.message}</p>}
      {asked === "fork" && <ForkDialog store={store} onClose={() => setAsked(null)} />}
      {asked === "remove" && (
        <Dialog title={`Remove ${store.id}?`} onClose={() => setAsked(null)} foot={
          <>
            <button class="button" onClick={() => setAsked(null)}>Keep it</button>
            <button class="button danger" onClick={() => { setAsked(null); void attempt(() => removeSandbox(store.id), "Asked: remove").then((done) => done && go(addressOf(null))); }}>Remove it</button>
          </>
        }>
          <div class="dialog-body"><p>Whatever runs in it ends, and its workspace goes. Its record stays, and can be looked at here for as long as the log is kept.</p></div>
        </Dialog>
      )}
    </header>
  );
}
