import type { ComponentChildren } from "preact";

export interface Tab<Name extends string> {
  name: Name;
  label: ComponentChildren;
}

export interface TabsProps<Name extends string> {
  tabs: Tab<Name>[];
  chosen: Name;
  onChoose: (name: Name) => void;
  label: string;
  panel: string;
  class?: string;
}

/** Arrow keys go from one to the next, as in every row of tabs. */
export function Tabs<Name extends string>({ tabs, chosen, onChoose, label, panel, class: more = "" }: TabsProps<Name>) {
  function move(event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const at = tabs.findIndex((each) => each.name === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (next === undefined) return;
    onChoose(next.name);
    const row = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => row.querySelector<HTMLElement>('[aria-selected="true"]')?.focus());
  }
  return (
    <div class={`tabs ${more}`} role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((each) => (
        <button
          key={each.name} class="tab" role="tab" id={`tab-${panel}-${each.name}`} aria-selected={each.name === chosen}
          aria-controls={panel} tabIndex={each.name === chosen ? 0 : -1} onClick={() => onChoose(each.name)}
        >
          {each.label}
        </button>
      ))}
    </div>
  );
}
