/** A list of any length of which only what is in sight is in the page. Rows may be of any height, which is measured. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Heights } from "./heights";
import { rangeOf, rowAt } from "./window";

export interface WindowedProps {
  count: number;
  /** What a row that was never seen is taken to be. */
  estimate: number;
  /** Tells one row from another, also when their places change. */
  keyOf: (index: number) => string | number;
  render: (index: number) => ComponentChildren;
  label: string;
  /** Stay at the end when rows are added there, for as long as somebody is at the end. */
  follow?: boolean;
  /** Rows are as high as `estimate` says, so nothing need be measured. */
  fixed?: boolean;
  /** Bring this row into sight when it changes. */
  reveal?: number | null;
  class?: string;
}

const BEYOND = 400;
const AT_END = 24;

export function Windowed(props: WindowedProps) {
  const { count, estimate, keyOf, render, label, follow = false, fixed = false, reveal = null } = props;
  const outer = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [, setMeasured] = useState(0);

  const heights = useMemo(() => new Heights(estimate), [estimate]);
  const nameOf = (index: number) => String(keyOf(index));
  heights.resize(count);
  let range = rangeOf(heights.offsets, view.top, view.height, BEYOND);
  if (heights.place(range.first, range.end, nameOf)) range = rangeOf(heights.offsets, view.top, view.height, BEYOND);
  const { offsets } = heights;
  const total = offsets[count] ?? 0;

  const sizes = useMemo(() => {
    if (fixed || typeof ResizeObserver === "undefined") return null;
    return new ResizeObserver((entries) => {
      const rows = entries.map(({ target }) => target as HTMLElement).filter((row) => row.isConnected && row.offsetHeight > 0);
      const measured = rows.map((row) => ({ index: Number(row.dataset.index), name: row.dataset.key ?? "", height: row.offsetHeight }));
      const element = outer.current;
      const top = rowAt(heights.offsets, element?.scrollTop ?? 0);
      const before = heights.offsets[top] ?? 0;
      if (!heights.measure(measured)) return;
      // What somebody reads stays where it is, whatever the rows above it turn out to be.
      const moved = (heights.offsets[top] ?? 0) - before;
      if (element !== null && moved !== 0) element.scrollTop += moved;
      setMeasured((times) => times + 1);
    });
  }, [fixed, heights]);
  useEffect(() => () => sizes?.disconnect(), [sizes]);

  function look(): void {
    const element = outer.current;
    if (element === null) return;
    atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - AT_END;
    element.toggleAttribute("data-more-above", follow && element.scrollTop > 1);
    setView({ top: element.scrollTop, height: element.clientHeight });
  }

  useEffect(() => {
    const element = outer.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      if (follow && atEnd.current) element.scrollTop = element.scrollHeight;
      look();
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [follow]);

  useLayoutEffect(() => {
    const element = outer.current;
    if (element === null || !follow || !atEnd.current) return;
    element.scrollTop = element.scrollHeight;
    look();
  }, [count, total, follow]);

  useLayoutEffect(() => {
    const element = outer.current;
    if (element === null || reveal === null || reveal >= count) return;
    const top = offsets[reveal] ?? 0;
    const bottom = offsets[reveal + 1] ?? top;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
  }, [reveal]);

  const rows = [];
  for (let index = range.first; index < range.end; index += 1) {
    const key = nameOf(index);
    const place = { transform: `translateY(${offsets[index]}px)`, ...(fixed ? { height: `${estimate}px` } : {}) };
    rows.push(
      <div
        class="windowed-row" role="listitem" key={key} data-key={key} data-index={index} style={place}
        aria-setsize={count} aria-posinset={index + 1}
        ref={sizes === null ? null : (row) => { if (row) sizes.observe(row, { box: "border-box" }); }}
      >
        {render(index)}
      </div>,
    );
  }
  return (
    <div class={`windowed ${props.class ?? ""}`} ref={outer} onScroll={look} tabIndex={0} role="region" aria-label={label}>
      <div role="list" aria-label={label} style={{ height: `${total}px` }}>{rows}</div>
    </div>
  );
}
