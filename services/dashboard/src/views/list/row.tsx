import { useEffect } from "preact/hooks";
import type { SandboxState } from "../../api/types";
import { alive, questions } from "../../state/filter";
import { addressOf } from "../../state/route";
import type { UsesStore } from "../../state/uses";
import { age, bytes, cost, counted } from "../../story/words";
import { HealthPill, Pill, RunPill, StatusPill } from "../../ui/pill";
import { now } from "../../ui/now";

const MEGABYTE = 1024 * 1024;
const HIGH = 0.85;

export function SandboxRow({ state, uses }: { state: SandboxState; uses: UsesStore }) {
  const run = state.runs.at(-1);
  const asks = questions(state);
  const lives = alive(state);
  useEffect(() => (lives ? uses.watch(state.sandbox) : undefined), [uses, state.sandbox, lives]);
  const use = lives ? uses.uses.value.get(state.sandbox)?.current?.use : undefined;
  const { cpus, memory_mb } = state.spec.resources;
  return (
    <a class={`list-row ${alive(state) ? "" : "over"}`} href={addressOf(state.sandbox, asks ? "agent" : "terminal")}>
      <div class="name">
        <strong class="cut" title={state.sandbox}>{state.sandbox}</strong>
        <span class="labels cut faint" title={about(state)}>{about(state)}</span>
      </div>
      <div class="status row wrap">
        <StatusPill status={state.status} />
        {alive(state) && state.health !== "unknown" && <HealthPill health={state.health} />}
        {state.error && <span class="cut trouble" title={state.error.message}>{state.error.message}</span>}
      </div>
      <div class={`agent ${run || asks > 0 ? "" : "none"}`}>
        {run ? (
          <>
            <div class="row"><RunPill status={run.status} asks={asks > 0} /><span class="faint cut">{run.runtime}{run.model ? ` · ${run.model}` : ""}</span></div>
            <span class="cut faint prompt">{run.prompt}</span>
          </>
        ) : asks > 0 ? <Pill tone="warn" beating>asks for leave</Pill> : <span class="faint">–</span>}
      </div>
      <Meter label="CPU" value={use && `${Math.round(use.cpu_percent)} %`} part={use && use.cpu_percent / 100 / cpus} />
      <Meter label="Memory" value={use && bytes(use.memory_bytes)} part={use && use.memory_bytes / MEGABYTE / memory_mb} />
      <div class={`number ${state.cost_usd ? "" : "faint"}`} data-label="Cost">{cost(state.cost_usd)}</div>
      <div class="number faint" data-label="Age" title={state.created_at}>{age(now.value - Date.parse(state.created_at))}</div>
    </a>
  );
}

function Meter({ label, value, part }: { label: string; value: string | undefined; part: number | undefined }) {
  return (
    <div class="number" data-label={label}>
      <span>{value ?? <span class="faint">–</span>}</span>
      {part !== undefined && <div class={`meter ${part > HIGH ? "high" : ""}`}><i style={{ width: `${Math.min(100, part * 100)}%` }} /></div>}
    </div>
  );
}

function about(state: SandboxState): string {
  const { labels, task_id, project_id } = state.spec;
  const told = [task_id, project_id, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`)].filter(Boolean);
  return [state.isolation, counted(state.commands, "command"), ...told].join(" · ");
}
