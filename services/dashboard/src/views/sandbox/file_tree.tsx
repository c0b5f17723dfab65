import { useMemo, useState } from "preact/hooks";
import type { FileInfo } from "../../api/types";
import { treeRows } from "../../story/tree";
import { bytes } from "../../story/words";
import { Icon } from "../../ui/icon";
import { rangeOf, offsetsOf } from "../../ui/window";

const ROW = 28;

export interface FileTreeProps {
  entries: FileInfo[];
  chosen: string | null;
  onChoose: (path: string) => void;
}

/** Arrow keys walk, right opens and goes in, left closes and goes out, Enter shows. */
export function FileTree({ entries, chosen, onChoose }: FileTreeProps) {
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(entries.filter((each) => each.kind === "directory" && !each.path.includes("/")).slice(0, 20).map((each) => each.path)));
  const [at, setAt] = useState<string | null>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const rows = useMemo(() => treeRows(entries, open), [entries, open]);
  const offsets = useMemo(() => offsetsOf(rows.length, () => ROW), [rows.length]);
  const range = rangeOf(offsets, view.top, view.height, 300);
  const active = rows.findIndex((each) => each.info.path === (at ?? chosen));

  function turn(path: string, wanted: boolean): void {
    setOpen((before) => {
      const after = new Set(before);
      if (wanted) after.add(path);
      else after.delete(path);
      return after;
    });
  }

  function pick(index: number): void {
    const row = rows[index];
    if (row === undefined) return;
    setAt(row.info.path);
    if (row.open === null) onChoose(row.info.path);
    else turn(row.info.path, !row.open);
  }

  function walk(event: KeyboardEvent): void {
    const row = rows[active];
    const box = event.currentTarget as HTMLElement;
    const to = (index: number) => {
      const next = rows[Math.max(0, Math.min(rows.length - 1, index))];
      if (next === undefined) return;
      setAt(next.info.path);
      const top = rows.indexOf(next) * ROW;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
    };
    if (event.key === "ArrowDown") to(active + 1);
    else if (event.key === "ArrowUp") to(active - 1);
    else if (event.key === "Home") to(0);
    else if (event.key === "End") to(rows.length - 1);
    else if (event.key === "ArrowRight" && row?.open === false) turn(row.info.path, true);
    else if (event.key === "ArrowRight" && row?.open === true && (rows[active + 1]?.depth ?? 0) > row.depth) to(active + 1);
    else if (event.key === "ArrowLeft" && row?.open === true) turn(row.info.path, false);
    else if (event.key === "ArrowLeft" && row !== undefined && row.depth > 0) to(rows.findLastIndex((each, index) => index < active && each.depth < row.depth));
    else if (event.key === "Enter" || event.key === " ") pick(active);
    else return;
    event.preventDefault();
  }

  const shown = rows.slice(range.first, range.end);
  const named = active >= range.first && active < range.end ? `tree-${active}` : undefined;
  return (
    <div
      class="tree" role="tree" aria-label="Files" tabIndex={0} aria-activedescendant={named} onKeyDown={walk}
      ref={(box) => { if (box && box.clientHeight !== view.height && box.clientHeight > 0) setView({ top: box.scrollTop, height: box.clientHeight }); }}
      onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
    >
      <div class="tree-space" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
        {shown.map(({ info, name, depth, open: isOpen }, offset) => {
          const index = range.first + offset;
          return (
            <div
              key={info.path} id={`tree-${index}`} role="treeitem" class={`tree-row ${index === active ? "active" : ""}`}
              aria-level={depth + 1} aria-expanded={isOpen === null ? undefined : isOpen} aria-selected={info.path === chosen} aria-setsize={rows.length} aria-posinset={index + 1}
              style={{ transform: `translateY(${index * ROW}px)`, paddingLeft: `${10 + depth * 16}px` }} onClick={() => pick(index)}
            >
              <span class={`chevron ${isOpen ? "open" : ""}`}>{isOpen === null ? null : <Icon name="right" size={11} />}</span>
              <Icon name={info.kind === "directory" ? "folder" : info.kind === "symlink" ? "link" : "file"} size={14} />
              <span class="cut grow">{name}{info.symlink ? ` → ${info.symlink}` : ""}</span>
              {info.kind === "file" && <span class="faint size">{bytes(info.size)}</span>}
            </div>
          );
        })}
      </div>
    </div>
  );
}
