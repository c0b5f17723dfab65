import { mayOperate } from "../../state/session";
import { Bell } from "../../ui/bell";
import { spawning } from "./spawning";

/** For whoever sees this page for the first time. */
export function NoSandboxes() {
  return (
    <div class="empty first">
      <Bell size={72} />
      <h2>Nothing grows here yet</h2>
      <p>A sandbox is a sealed place for an agent to work in. Everything that happens in it is kept, and can be looked at here, live or later.</p>
      {mayOperate.value && <button class="button main" onClick={() => (spawning.value = true)}>Make the first one</button>}
      <p class="faint">Or from a shell:</p>
      <div class="lines mono">
        <div>./cloche create --id demo</div>
        <div>./cloche exec demo -- echo hello</div>
        <div>./cloche agent start demo --script docs/agents/hello.yaml</div>
      </div>
    </div>
  );
}
