/** Begins a run of an agent. */

import { useState } from "preact/hooks";
import { startAgent, type NewRun } from "../../api/agent";
import { wordsOf } from "../../api/problem";
import type { SandboxStore } from "../../state/sandbox";
import { Dialog } from "../../ui/dialog";
import { Labelled } from "../../ui/labelled";

const RUNTIMES = ["claude", "acp", "openhands", "script"];

export function AgentDialog({ store, onClose }: { store: SandboxStore; onClose: () => void }) {
  const [runtime, setRuntime] = useState("claude");
  const [prompt, setPrompt] = useState("");
  const [script, setScript] = useState("");
  const [model, setModel] = useState("");
  const [budget, setBudget] = useState("");
  const [open, setOpen] = useState(true);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string | null>(null);
  const spends = budget === "" || Number(budget) > 0;
  const whole = prompt.trim() !== "" && spends && (runtime !== "script" || script.trim() !== "");

  async function start(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    const run: NewRun = { runtime, prompt, keep_open: open };
    if (model) run.model = model;
    if (budget) run.max_budget_usd = Number(budget);
    if (runtime === "script") run.options = { script };
    try {
      await startAgent(store.id, run);
      store.refresh();
      onClose();
    } catch (error) {
      setWrong(wordsOf(error));
      setBusy(false);
    }
  }

  return (
    <Dialog title="Start an agent" onClose={onClose}>
      <form onSubmit={start}>
        <div class="dialog-body spawn">
          <Labelled label="Runtime">
            {(field) => <select {...field} class="field" value={runtime} onChange={(event) => setRuntime(event.currentTarget.value)}>{RUNTIMES.map((each) => <option key={each}>{each}</option>)}</select>}
          </Labelled>
          <Labelled label="Model" hint="as the runtime says">
            {(field) => <input {...field} class="field" value={model} onInput={(event) => setModel(event.currentTarget.value)} />}
          </Labelled>
          <Labelled label="What it is to do" whole>
            {(field) => <textarea {...field} class="field" rows={3} value={prompt} onInput={(event) => setPrompt(event.currentTarget.value)} />}
          </Labelled>
          {runtime === "script" && (
            <Labelled label="Script" hint="YAML, see docs/agents/script.md" whole>
              {(field) => <textarea {...field} class="field mono" rows={8} value={script} onInput={(event) => setScript(event.currentTarget.value)} />}
            </Labelled>
          )}
          <Labelled label="May spend, in dollars" fault={spends ? undefined : "more than nothing"}>
            {(field) => <input {...field} class="field" inputMode="decimal" placeholder="as the settings say" value={budget} onInput={(event) => setBudget(event.currentTarget.value.trim())} />}
          </Labelled>
          <label class="row"><input type="checkbox" checked={open} onChange={(event) => setOpen(event.currentTarget.checked)} /> Wait for more when it is done</label>
          {wrong && <p class="wrong whole" role="alert">{wrong}</p>}
        </div>
        <div class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>Cancel</button>
          <button class="button main" disabled={busy || !whole}>{busy ? "Asking…" : "Start it"}</button>
        </div>
      </form>
    </Dialog>
  );
}
