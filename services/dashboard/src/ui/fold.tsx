import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "./icon";

/** Which ones somebody opened or closed: rows come and go while one scrolls. */
const remembered = new Map<string, boolean>();

export interface FoldProps {
  id: string;
  head: ComponentChildren;
  children: ComponentChildren;
  open?: boolean;
  class?: string;
}

export function Fold({ id, head, children, open = false, class: more = "" }: FoldProps) {
  const [opened, setOpened] = useState(remembered.get(id) ?? open);
  function turn(): void {
    remembered.set(id, !opened);
    setOpened(!opened);
  }
  return (
    <div class={`fold ${more}`}>
      <button class="fold-head" aria-expanded={opened} onClick={turn}>
        <span class={`chevron ${opened ? "open" : ""}`}><Icon name="right" size={11} /></span>
        {head}
      </button>
      {opened && <div class="fold-body">{children}</div>}
    </div>
  );
}
