import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { useEdges } from "./edges";

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
  const row = useRef<HTMLDivElement>(null);
  useEdges(row, tabs.length, chosen);

  function move(event: KeyboardEvent): void {
    const at = tabs.findIndex((each) => each.name === chosen);
    const places: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 };
    const to = places[event.key];
    const next = to === undefined ? undefined : tabs.at(to % tabs.length);
    if (next === undefined) return;
    event.preventDefault();
    onChoose(next.name);
    const row = event.currentTarget as HTMLElement;
    requestAnimationFrame(() => row.querySelector<HTMLElement>('[aria-selected="true"]')?.focus());
  }
  return (
    <div class={`tabs ${more}`} role="tablist" ref={row} aria-label={label} onKeyDown={move}>
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
