import { dismiss, toasts } from "../state/toasts";
import { Icon } from "./icon";

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((each) => (
        <div key={each.id} class={`toast ${each.kind}`}>
          <span class="grow">{each.text}</span>
          <button class="button bare small icon" aria-label="Dismiss" onClick={() => dismiss(each.id)}><Icon name="close" size={12} /></button>
        </div>
      ))}
    </div>
  );
}
