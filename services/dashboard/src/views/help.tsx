import { Dialog } from "../ui/dialog";

const KEYS: [string, string][] = [
  ["?", "this help"],
  ["g", "to the list of sandboxes"],
  ["n", "a new sandbox"],
  ["/", "search the list, or the events"],
  ["1 … 6", "terminal, files, network, use, findings, events"],
  ["c", "write to the agent"],
  ["r", "run a command"],
  ["[  ]", "one event back, one event on"],
  ["{  }", "a hundred events back, on"],
  ["p", "play from here, or stop"],
  ["l", "back to live"],
  ["a", "look at the first thing that waits for leave"],
];

export function HelpDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <div class="dialog-body">
        <dl class="keys">
          {KEYS.map(([key, words]) => (
            <div key={key} class="row">
              <dt>{key.split("  ").map((each) => <kbd key={each}>{each}</kbd>)}</dt>
              <dd>{words}</dd>
            </div>
          ))}
        </dl>
        <p class="faint">In a terminal every key goes to the program. <kbd>Esc</kbd> and then <kbd>Tab</kbd> leaves it.</p>
      </div>
    </Dialog>
  );
}
