import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Tells the style sheet whether a row goes on beyond its edges, and brings what is chosen into sight. */
export function useEdges(row: RefObject<HTMLElement | null>, count: number, chosen: string | undefined): void {
  useEffect(() => {
    const element = row.current;
    if (element === null) return;
    const look = (): void => {
      element.toggleAttribute("data-more-before", element.scrollLeft > 1);
      element.toggleAttribute("data-more-behind", element.scrollLeft + element.clientWidth < element.scrollWidth - 1);
    };
    const sized = new ResizeObserver(look);
    for (const each of [element, ...element.children]) sized.observe(each);
    element.addEventListener("scroll", look, { passive: true });
    return () => { sized.disconnect(); element.removeEventListener("scroll", look); };
  }, [count]);
  useEffect(() => {
    row.current?.querySelector('[aria-selected="true"], [aria-pressed="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen]);
}
