/** The workspace at the moment that is looked at: a tree, a file's content, and how it came to be. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { getTree, type Tree } from "../../api/files";
import { wordsOf } from "../../api/problem";
import type { FileInfo } from "../../api/types";
import { latest } from "../../state/latest";
import type { SandboxStore } from "../../state/sandbox";
import { Empty } from "../../ui/empty";
import { FileTree } from "./file_tree";
import { FileView } from "./file_view";

const SETTLE_MS = 250;

export function FilesPanel({ store }: { store: SandboxStore }) {
  const [tree, setTree] = useState<Tree | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const at = store.moment.value;
  void store.record.version.value;
  const changes = store.record.family("file").length;
  const trees = useRef(latest<number | null, Tree>((moment, stop) => getTree(store.id, moment, stop)));

  useEffect(() => {
    const timer = setTimeout(() => {
      trees.current.ask(at, (found) => { setTree(found); setTrouble(null); }, (error) => setTrouble(wordsOf(error)));
    }, at === null ? SETTLE_MS : 0);
    return () => clearTimeout(timer);
  }, [at, at === null ? changes : 0]);
  useEffect(() => () => trees.current.cancel(), []);

  const chosen = useMemo(() => tree?.entries.find((each) => each.path === store.file.value), [tree, store.file.value]);
  if (tree === null) return <Empty title={trouble === null ? "Looking…" : "The files could not be read"}>{trouble && <p>{trouble}</p>}</Empty>;
  return (
    <div class={`files-panel ${store.file.value ? "chosen" : ""}`}>
      <div class="tree-side">
        <FileTree entries={tree.entries} chosen={store.file.value} onChoose={(path) => (store.file.value = path)} />
        <p class="faint tree-foot">{tree.entries.length.toLocaleString()}{tree.more ? "+" : ""} entries{at === null ? "" : ` at sequence ${at} of the log`}{trouble ? ` · ${trouble}` : ""}</p>
      </div>
      <div class="file-side">
        {store.file.value === null ? <Empty title={tree.entries.length ? "Choose a file" : "The workspace is empty"}><p>{tree.entries.length ? "Its content, and every change of it, is shown here." : "Whatever is written in it is shown here, with every change."}</p></Empty>
          : <FileView store={store} path={store.file.value} info={chosen as FileInfo | undefined} workspace={tree.workspace} at={at} />}
      </div>
    </div>
  );
}
