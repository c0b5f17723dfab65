/** One file: what is in it at that moment, and its changes up to then. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { getContent } from "../../api/files";
import { isGone } from "../../api/http";
import { wordsOf } from "../../api/problem";
import type { FileInfo } from "../../api/types";
import { latest } from "../../state/latest";
import { addressOf, pass } from "../../state/route";
import type { SandboxStore } from "../../state/sandbox";
import { changesOf, type Change } from "../../story/changes";
import { countDiff } from "../../story/diff";
import { bytes, clock } from "../../story/words";
import { DiffView } from "../../ui/diff_view";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icon";
import { Windowed } from "../../ui/windowed";
import { shownAs, type Shown } from "./shown_as";

const MOST_BYTES = 4_000_000;

export interface FileViewProps {
  store: SandboxStore;
  path: string;
  info: FileInfo | undefined;
  workspace: string;
  at: number | null;
}

interface Found {
  path: string;
  shown: Shown | null;
  trouble: string | null;
}

export function FileView({ store, path, info, workspace, at }: FileViewProps) {
  const [side, setSide] = useState<"content" | "diff">("content");
  const [found, setFound] = useState<Found | null>(null);
  const contents = useRef(latest<[string, number | null], Uint8Array>(([name, moment], stop) => getContent(store.id, name, moment, stop)));
  const large = info !== undefined && info.size > MOST_BYTES;

  useEffect(() => {
    if (info === undefined || info.kind !== "file" || large) return;
    contents.current.ask(
      [path, at],
      (content) => setFound({ path, shown: shownAs(content), trouble: null }),
      (error) => setFound({ path, shown: null, trouble: isGone(error) ? "Its content is not on record." : wordsOf(error) }),
    );
  }, [path, at === null ? info?.sha256 ?? info?.mtime_us : at, info === undefined]);

  // Never one file's content under another's name.
  const { shown, trouble } = found?.path === path ? found : { shown: null, trouble: null };

  void store.record.version.value;
  const files = store.record.family("file");
  const count = files.countTo(at);
  const changes = useMemo(() => changesOf(files.rows(0, count), `${workspace.replace(/\/$/, "")}/${path}`), [path, count, workspace]);
  return (
    <>
      <div class="file-head">
        <button class="button bare icon small to-tree" aria-label="Back to the tree" onClick={() => (store.file.value = null)}><Icon name="back" size={14} /></button>
        <strong class="mono cut grow" title={path}>{path}</strong>
        {info && <span class="faint">{bytes(info.size)}</span>}
        <div class="switch" role="group" aria-label="Show">
          <button aria-pressed={side === "content"} onClick={() => setSide("content")}>Content</button>
          <button aria-pressed={side === "diff"} onClick={() => setSide("diff")}>Changes{changes.length ? ` ${changes.length}` : ""}</button>
        </div>
      </div>
      <div class="file-body">
        {side === "diff" ? (
          changes.length === 0 ? <Empty title="It has not changed"><p>No change of it is on record{at === null ? "" : " up to that moment"}.</p></Empty> : (
            <div class="changes" tabIndex={0} role="region" aria-label="Changes">
              {changes.slice(0, 200).map((change) => (
                <section key={change.sequence} class="change-entry" aria-label={`${change.action} at sequence ${change.sequence}`}>
                  <div class="row">
                    <span class={`tag file ${change.action}`}>{change.action}</span>
                    <span class="faint">{clock(change.time)}</span>
                    {change.diff && <Counts diff={change.diff} />}
                    <div class="grow" />
                    <button class="button bare small" onClick={() => pass(addressOf(store.id, "files", change.sequence))}>look at that moment</button>
                  </div>
                  {change.diff ? <DiffView diff={change.diff} most={60} /> : <p class="faint">{withoutDiff(change)}</p>}
                </section>
              ))}
            </div>
          )
        ) : info === undefined ? <Empty title={at === null ? "It is not there any more" : "It was not there then"}><p>Its changes say what became of it.</p></Empty>
          : large ? <Empty title="Too large to show"><p>{bytes(info.size)}. From a shell:</p><code>./cloche files get {store.id} {path}</code></Empty>
          : trouble ? <Empty title="It could not be read"><p>{trouble}</p></Empty>
          : info.kind !== "file" ? <Empty title={`A ${info.kind}`}>{info.symlink && <p class="mono">→ {info.symlink}</p>}</Empty>
          : shown === null ? <Empty title="Looking…" /> : <Content shown={shown} />}
      </div>
    </>
  );
}

function withoutDiff({ action, size }: Change): string {
  if (action === "created") return size === null ? "It is new." : `It is new, with ${bytes(size)}.`;
  if (action === "modified") return "No diff of it is on record: it is no small text.";
  return size === null ? "Its content is as it was, or gone with it." : bytes(size);
}

function Counts({ diff }: { diff: string }) {
  const { added, removed } = countDiff(diff);
  return <span class="counts mono"><span class="plus">+{added}</span> <span class="minus">−{removed}</span></span>;
}

function Content({ shown }: { shown: Shown }) {
  if (shown.kind === "binary") return <Empty title="Not text"><p>{bytes(shown.size)} that are no UTF-8 text.</p></Empty>;
  if (shown.lines.length === 0) return <Empty title="It is empty" />;
  const width = String(shown.lines.length).length;
  return (
    <Windowed
      class="content mono" count={shown.lines.length} estimate={20} fixed label="Content" keyOf={(index) => index}
      render={(index) => <div class="content-line"><span class="faint line-number" style={{ width: `${width + 1}ch` }} aria-hidden="true">{index + 1}</span><span>{shown.lines[index]}</span></div>}
    />
  );
}
