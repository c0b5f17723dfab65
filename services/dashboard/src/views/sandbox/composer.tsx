/** A line to the agent, and what stops or holds it. */

import { useState } from "preact/hooks";
import { say, type Said } from "../../api/agent";
import type { RunState } from "../../api/types";
import type { SandboxStore } from "../../state/sandbox";
import { mayOperate } from "../../state/session";
import { attempt } from "../../state/toasts";
import { Icon } from "../../ui/icon";
import { AgentDialog } from "./agent_dialog";

export function Composer({ store, live, run }: { store: SandboxStore; live: boolean; run: RunState | undefined }) {
  const [text, setText] = useState("");
  const [kind, setKind] = useState<"user.message" | "guidance">("user.message");
  if (!live) return <p class="composer-note faint">You look at the past. <em>Live</em>, below, leads back to now.</p>;
  if (run === undefined && mayOperate.value) return <NewAgent store={store} />;
  const able = mayOperate.value && run !== undefined;
  const order = (said: Said, done: string) => attempt(() => say(store.id, said), done);

  async function send(event: Event): Promise<void> {
    event.preventDefault();
    const words = text.trim();
    if (words && (await attempt(() => say(store.id, { type: kind, text: words })))) setText("");
  }

  return (
    <form class="composer" onSubmit={send}>
      {run && run.queued.length + run.queued_more > 0 && <p class="faint queued">{run.queued.length + run.queued_more} said and not heard yet</p>}
      <textarea
        id="composer" class="field" rows={2} aria-label="Write to the agent" disabled={!able}
        placeholder={mayOperate.value ? "Write to the agent" : "Viewers read along"}
        value={text} onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) void send(event); }}
      />
      <div class="row wrap">
        <select class="field small" aria-label="As" value={kind} disabled={!able} onChange={(event) => setKind(event.currentTarget.value as typeof kind)}>
          <option value="user.message">message</option>
          <option value="guidance">guidance</option>
        </select>
        <div class="grow" />
        <button type="button" class="button small" disabled={!able} onClick={() => order({ type: "interrupt" }, "Asked: interrupt")}><Icon name="bolt" size={14} /> Interrupt</button>
        {run?.status === "paused"
          ? <button type="button" class="button small" aria-label="Resume the agent" disabled={!able} onClick={() => order({ type: "resume" }, "Asked: resume")}><Icon name="play" size={14} /> Resume</button>
          : <button type="button" class="button small" aria-label="Pause the agent" disabled={!able} onClick={() => order({ type: "pause" }, "Asked: pause")}><Icon name="pause" size={14} /> Pause</button>}
        <button class="button small main" disabled={!able || text.trim() === ""}><Icon name="send" size={14} /> Send</button>
      </div>
    </form>
  );
}

/** There is none to write to: there could be one. */
function NewAgent({ store }: { store: SandboxStore }) {
  const [asked, setAsked] = useState(false);
  const runs = store.state.value?.status === "running";
  return (
    <div class="composer new-agent">
      <span class="faint grow">{runs ? "No agent works here now." : "An agent needs a sandbox that runs."}</span>
      <button id="composer" class="button small main" disabled={!runs} onClick={() => setAsked(true)}><Icon name="plus" size={14} /> Start an agent</button>
      {asked && <AgentDialog store={store} onClose={() => setAsked(false)} />}
    </div>
  );
}
