/** A new sandbox: everything may be left as it is. */

import { useEffect, useState } from "preact/hooks";
import { KNOWN, loadBounds, type Bounds, type ResourceName } from "../../api/bounds";
import { createSandbox } from "../../api/sandboxes";
import { emptyDraft, faultsOf, inField, specOf, type Draft } from "../../state/draft";
import { addressOf, go } from "../../state/route";
import { session } from "../../state/session";
import { wordsOf } from "../../api/problem";
import { Dialog } from "../../ui/dialog";
import { Labelled } from "../../ui/labelled";

const RESOURCES: [ResourceName, string][] = [
  ["memory_mb", "Memory, MiB"], ["cpus", "CPUs"], ["pids", "Processes"], ["disk_mb", "Disk, MiB"], ["timeout_ms", "Time limit, minutes"],
];

export function SpawnDialog({ onClose }: { onClose: () => void }) {
  const [bounds, setBounds] = useState<Bounds>(KNOWN);
  const projects = session.value?.scope.projects ?? [];
  const [draft, setDraft] = useState<Draft>({ ...emptyDraft(), project: projects.length === 1 ? (projects[0] ?? "") : "" });
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string | null>(null);
  useEffect(() => void loadBounds().then(setBounds), []);
  const faults = faultsOf(draft, bounds);
  const change = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));

  async function spawn(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      const sandbox = await createSandbox(draft.id || null, specOf(draft));
      onClose();
      go(addressOf(sandbox));
    } catch (error) {
      setWrong(wordsOf(error));
      setBusy(false);
    }
  }

  return (
    <Dialog title="New sandbox" onClose={onClose}>
      <form onSubmit={spawn}>
        <div class="dialog-body spawn">
          <p class="faint whole">Leave empty what should be as the node's settings say.</p>
          <Labelled label="Name" fault={faults.id} hint="letters, digits, - and _">
            {(field) => <input {...field} class="field" autofocus placeholder="one is chosen" value={draft.id} onInput={(event) => change({ id: event.currentTarget.value })} />}
          </Labelled>
          <Labelled label="Isolation" hint="what seals it off">
            {(field) => (
              <select {...field} class="field" value={draft.isolation} onChange={(event) => change({ isolation: event.currentTarget.value as Draft["isolation"] })}>
                <option value="">docker if there is one, else local</option><option value="docker">docker</option><option value="devcontainer">devcontainer</option><option value="local">local</option>
              </select>
            )}
          </Labelled>
          {RESOURCES.map(([name, label]) => (
            <Labelled key={name} label={label} fault={faults[name]} hint={`${inField(name, bounds[name].least)} to ${inField(name, bounds[name].most)}`}>
              {(field) => (
                <input
                  {...field} class="field" inputMode="decimal" placeholder={String(inField(name, bounds[name].usual))} value={draft.resources[name]}
                  onInput={(event) => change({ resources: { ...draft.resources, [name]: event.currentTarget.value.trim() } })}
                />
              )}
            </Labelled>
          ))}
          <Labelled label="Network" hint="what it may reach">
            {(field) => (
              <select {...field} class="field" value={draft.mode} onChange={(event) => change({ mode: event.currentTarget.value as Draft["mode"] })}>
                <option value="">as the settings say</option><option value="none">none</option><option value="restricted">only these hosts</option><option value="full">full, unwatched</option>
              </select>
            )}
          </Labelled>
          {draft.mode === "restricted" && (
            <>
              <Labelled label="Allowed hosts" fault={faults.hosts} hint="names, or *.example.com" whole>
                {(field) => <textarea {...field} class="field mono" rows={2} placeholder="github.com *.npmjs.org" value={draft.hosts} onInput={(event) => change({ hosts: event.currentTarget.value })} />}
              </Labelled>
              <label class="row whole"><input type="checkbox" checked={draft.ask} onChange={(event) => change({ ask: event.currentTarget.checked })} /> Ask me about other hosts</label>
            </>
          )}
          {projects.length > 0 ? (
            <Labelled label="Project" hint="what it is counted for">
              {(field) => (
                <select {...field} class="field" required value={draft.project} onChange={(event) => change({ project: event.currentTarget.value })}>
                  {projects.length > 1 && <option value="">choose one</option>}
                  {projects.map((each) => <option key={each} value={each}>{each}</option>)}
                </select>
              )}
            </Labelled>
          ) : (
            <Labelled label="Project" fault={faults.project} hint="what it is counted for, if for any">
              {(field) => <input {...field} class="field" value={draft.project} onInput={(event) => change({ project: event.currentTarget.value })} />}
            </Labelled>
          )}
          <Labelled label="Task" fault={faults.task} hint="what it is for; the list finds it by this">
            {(field) => <input {...field} class="field" value={draft.task} onInput={(event) => change({ task: event.currentTarget.value })} />}
          </Labelled>
          <Labelled label="Labels" fault={faults.labels} hint="team=garden, one a line" whole>
            {(field) => <textarea {...field} class="field mono" rows={2} value={draft.labels} onInput={(event) => change({ labels: event.currentTarget.value })} />}
          </Labelled>
          {wrong && <p class="wrong whole" role="alert">{wrong}</p>}
        </div>
        <div class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>Cancel</button>
          <button class="button main" disabled={busy || Object.keys(faults).length > 0}>{busy ? "Asking…" : "Make it"}</button>
        </div>
      </form>
    </Dialog>
  );
}
