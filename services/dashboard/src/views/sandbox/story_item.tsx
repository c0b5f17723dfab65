/** One thing of the story, as it is shown. Everything in it is text that somebody else wrote. */

import type { JSX } from "preact";
import { memo } from "../../ui/memo";
import type { SandboxStore } from "../../state/sandbox";
import { addressOf } from "../../state/route";
import { countDiff } from "../../story/diff";
import type { Call, Changed, Item, Note, Ran, Said } from "../../story/story";
import { clock, duration } from "../../story/words";
import { DiffView } from "../../ui/diff_view";
import { Fold } from "../../ui/fold";
import { LongText } from "../../ui/long_text";

export const StoryItem = memo(function StoryItem({ item, store }: { item: Item; store: SandboxStore }): JSX.Element {
  switch (item.kind) {
    case "said":
      return item.thinking ? <Thought item={item} /> : <Speech item={item} />;
    case "call":
      return <ToolCall item={item} />;
    case "changed":
      return <FileChange item={item} />;
    case "ran":
      return <Command item={item} store={store} />;
    case "note":
      return <Remark item={item} />;
  }
});

function Time({ at, sequence }: { at: number; sequence: number }) {
  return <time class="faint time" title={`sequence ${sequence}`}>{clock(at)}</time>;
}

const NAMES = { agent: "Agent", user: "You", guardian: "Guardian", system: "System" };

function Speech({ item }: { item: Said }) {
  const name = item.who === "user" && item.by ? item.by.replace(/^gateway\//, "") : NAMES[item.who];
  return (
    <article class={`said ${item.who}`}>
      <div class="by"><strong>{name}</strong>{item.label && <span class="faint">{item.label}</span>}<Time at={item.time} sequence={item.sequence} /></div>
      <LongText text={item.text} />
      {item.partial && <span class="writing" aria-label="still writing">▍</span>}
    </article>
  );
}

function Thought({ item }: { item: Said }) {
  return (
    <Fold class="thought" id={`t${item.sequence}`} head={<><span class="tag think">thinking</span><span class="cut faint">{item.text}</span><Time at={item.time} sequence={item.sequence} /></>}>
      <LongText text={item.text} />
    </Fold>
  );
}

const LEAVE = { none: "", asked: "waits for leave", approved: "approved", rejected: "rejected" };

function ToolCall({ item }: { item: Call }) {
  const how = item.result === null ? (item.leave === "rejected" ? "bad" : "busy") : item.result.ok ? "good" : "bad";
  return (
    <Fold
      class={`call ${how} ${item.within ? "within" : ""}`} id={`c${item.sequence}`}
      head={
        <>
          <span class={`dot ${how}`} role="img" aria-label={how === "busy" ? "running" : how === "good" ? "done" : "failed"} />
          <span class="tag">{item.tool}</span>
          <span class="cut mono grow">{item.subject}</span>
          {item.leave !== "none" && <span class={`leave ${item.leave}`}>{LEAVE[item.leave]}</span>}
          {item.result?.ms != null && <span class="faint time">{duration(item.result.ms)}</span>}
          <Time at={item.time} sequence={item.sequence} />
        </>
      }
    >
      <ToolInput input={item.input} />
      {item.leaveReason && <p class="faint">{item.leaveBy ? `${item.leaveBy}: ` : ""}{item.leaveReason}</p>}
      {item.result && <LongText text={item.result.output || "(nothing)"} mono />}
      {item.result?.cut && <p class="faint">Cut here; event {item.result.sequence} has more.</p>}
    </Fold>
  );
}

function ToolInput({ input }: { input: Record<string, unknown> }) {
  const before = text(input, "old", "old_string");
  const after = text(input, "new", "new_string") ?? text(input, "content");
  const rest = Object.entries(input).filter(([key]) => !["old", "new", "old_string", "new_string", "content"].includes(key));
  return (
    <>
      {rest.length > 0 && (
        <dl class="inputs mono">
          {rest.map(([key, value]) => <div key={key}><dt class="faint">{key}</dt><dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd></div>)}
        </dl>
      )}
      {(before !== null || after !== null) && <DiffView diff={asDiff(before ?? "", after ?? "")} />}
    </>
  );
}

function text(input: Record<string, unknown>, ...names: string[]): string | null {
  for (const name of names) if (typeof input[name] === "string") return input[name];
  return null;
}

function asDiff(before: string, after: string): string {
  const lines = (all: string, sign: string) => (all === "" ? [] : all.replace(/\n$/, "").split("\n").map((line) => sign + line));
  return ["@@ -1 +1 @@", ...lines(before, "-"), ...lines(after, "+")].join("\n");
}

function FileChange({ item }: { item: Changed }) {
  const count = item.diff === null ? null : countDiff(item.diff);
  const head = (
    <>
      <span class={`tag file ${item.action}`}>{item.action}</span>
      <span class="cut mono grow">{item.path.replace(/^\/workspace\//, "")}</span>
      {count && <span class="counts mono"><span class="plus">+{count.added}</span> <span class="minus">−{count.removed}</span></span>}
      <Time at={item.time} sequence={item.sequence} />
    </>
  );
  if (item.diff === null) return <div class="change fold-head">{head}</div>;
  return <Fold class="change" id={`f${item.sequence}${item.path}`} head={head} open={(count?.added ?? 0) + (count?.removed ?? 0) <= 30}><DiffView diff={item.diff} /></Fold>;
}

function Command({ item, store }: { item: Ran; store: SandboxStore }) {
  return (
    <a class="ran fold-head" href={addressOf(store.id, "terminal", store.moment.value)} onClick={() => (store.chosen.value = item.exec)}>
      <span class={`dot ${item.ok === null ? "busy" : item.ok ? "good" : "bad"}`} role="img" aria-label={item.outcome ?? "running"} />
      <span class="cut mono grow">$ {item.line}</span>
      <span class="faint">{item.outcome ?? "runs"}</span>
      <Time at={item.time} sequence={item.sequence} />
    </a>
  );
}

function Remark({ item }: { item: Note }) {
  return (
    <div class={`remark ${item.tone}`}>
      {item.who === "guardian" && <span class="tag">guardian</span>}
      <span class="grow">{item.text}</span>
      <Time at={item.time} sequence={item.sequence} />
    </div>
  );
}
