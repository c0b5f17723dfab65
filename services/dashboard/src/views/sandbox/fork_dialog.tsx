import { useState } from "preact/hooks";
import { forkSandbox } from "../../api/sandboxes";
import { wordsOf } from "../../api/problem";
import { addressOf, go } from "../../state/route";
import type { SandboxStore } from "../../state/sandbox";
import { Dialog } from "../../ui/dialog";
import { Labelled } from "../../ui/labelled";

/** A new sandbox that begins as this one is, or was. */
export function ForkDialog({ store, onClose }: { store: SandboxStore; onClose: () => void }) {
  const [name, setName] = useState("");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string | null>(null);
  const at = store.moment.value;

  async function fork(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      const made = await forkSandbox(store.id, name || null, at);
      onClose();
      go(addressOf(made));
    } catch (error) {
      setWrong(wordsOf(error));
      setBusy(false);
    }
  }

  return (
    <Dialog title="Fork" onClose={onClose}>
      <form onSubmit={fork}>
        <div class="dialog-body">
          <p class="soft">A new sandbox with the files and the conversation that <strong>{store.id}</strong> {at === null ? "has now" : `had at sequence ${at} of the log`}. This one goes on as it is.</p>
          <Labelled label="Name of the new one">
            {(field) => <input {...field} class="field" autofocus placeholder="one is chosen" value={name} onInput={(event) => setName(event.currentTarget.value)} />}
          </Labelled>
          {wrong && <p class="wrong" role="alert">{wrong}</p>}
        </div>
        <div class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>Cancel</button>
          <button class="button main" disabled={busy}>{busy ? "Asking…" : "Fork it"}</button>
        </div>
      </form>
    </Dialog>
  );
}
