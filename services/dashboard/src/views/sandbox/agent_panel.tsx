/** The agent: what waits for leave on top, its story, and a line to write to it. */

import type { RunState } from "../../api/types";
import { openRun } from "../../state/filter";
import type { SandboxStore } from "../../state/sandbox";
import { cost, counted } from "../../story/words";
import { Empty } from "../../ui/empty";
import { RunPill } from "../../ui/pill";
import { Windowed } from "../../ui/windowed";
import { Composer } from "./composer";
import { Questions } from "./questions";
import { StoryItem } from "./story_item";

export function AgentPanel({ store }: { store: SandboxStore }) {
  const state = store.shown.value;
  const { items } = store.story.value;
  const run = state && (openRun(state) ?? state.runs.at(-1));
  const live = store.moment.value === null;
  return (
    <section class="agent-panel" aria-label="Agent">
      <div class="agent-head">
        <h2>{run ? run.runtime : "Agent"}</h2>
        {run?.model && <span class="faint cut">{run.model}</span>}
        <div class="grow" />
        {run && <span class="faint spent">{spent(run)}</span>}
        {run && <RunPill status={run.status} asks={run.pending.some((each) => !each.answered)} />}
      </div>
      <Questions store={store} live={live} />
      {items.length === 0 ? <NoStory id={store.id} loading={!store.loaded.value.done} /> : (
        <Windowed
          class="story" count={items.length} estimate={72} label="What happened" follow
          keyOf={(index) => { const item = items[index]; return item ? `${item.sequence} ${item.kind} ${"path" in item ? item.path : ""}` : index; }}
          render={(index) => { const item = items[index]; return item && <StoryItem item={item} store={store} />; }}
        />
      )}
      <Composer store={store} live={live} run={state ? openRun(state) : undefined} />
    </section>
  );
}

function spent({ turns, tokens, cost_usd }: RunState): string {
  return [turns && counted(turns, "turn"), tokens && counted(tokens, "token"), cost_usd && cost(cost_usd)].filter(Boolean).join(" · ");
}

function NoStory({ id, loading }: { id: string; loading: boolean }) {
  if (loading) return <Empty title="Reading its history…" />;
  return (
    <Empty title="Nobody works here yet">
      <p>What an agent thinks, says and does is shown here, with what it changes. Start one below, or from a shell:</p>
      <code>./cloche agent start {id} --runtime claude --prompt '…'</code>
    </Empty>
  );
}
