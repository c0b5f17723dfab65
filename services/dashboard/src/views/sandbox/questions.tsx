/** What waits for somebody's leave: tool calls of an agent, hosts that the sandbox may not reach. */

import { useState } from "preact/hooks";
import { say, type Said } from "../../api/agent";
import type { SandboxStore } from "../../state/sandbox";
import { mayOperate } from "../../state/session";
import { attempt } from "../../state/toasts";
import { object, text } from "../../story/row";
import { age, plainly } from "../../story/words";
import { now } from "../../ui/now";

interface Question {
  approval: string;
  what: string;
  subject: string;
  reason: string;
  expires: string | null;
  answered: boolean;
  network: boolean;
}

function questionsOf(store: SandboxStore): Question[] {
  const state = store.shown.value;
  if (state === null) return [];
  const tools = state.runs.flatMap((run) => run.pending).map((each) => ({
    approval: each.approval, what: each.tool, subject: each.subject, reason: each.reason, expires: each.expires_at, answered: each.answered, network: false,
  }));
  const hosts = state.approvals.pending.map((each) => ({
    approval: each.approval, what: "reach", subject: `${each.host}:${each.port}`, reason: `${each.method}: the host is not in the list`, expires: each.expires_at, answered: false, network: true,
  }));
  return [...tools, ...hosts];
}

export function Questions({ store, live }: { store: SandboxStore; live: boolean }) {
  const asked = questionsOf(store);
  if (asked.length === 0) return null;
  return (
    <div class="questions" role="group" aria-label="Waiting for leave">
      {asked.map((each, index) => <Asked key={each.approval} question={each} store={store} live={live} first={index === 0} />)}
    </div>
  );
}

function Asked({ question, store, live, first }: { question: Question; store: SandboxStore; live: boolean; first: boolean }) {
  const [answering, setAnswering] = useState(false);
  const [remember, setRemember] = useState(false);
  const able = live && mayOperate.value && !answering && !question.answered;

  async function answer(yes: boolean): Promise<void> {
    setAnswering(true);
    if (!(await attempt(() => say(store.id, saidOf(question, yes, remember))))) setAnswering(false);
    store.refresh();
  }

  return (
    <article class="question" aria-label={`${question.what} ${question.subject}`}>
      <div class="row">
        <strong class="grow">{plainly(question.what)}</strong>
        {question.expires && live && <span class="faint">{Math.max(0, Date.parse(question.expires) - now.value) > 0 ? `${age(Date.parse(question.expires) - now.value)} left` : "expired"}</span>}
      </div>
      {question.reason && <p class="faint">{plainly(question.reason)}</p>}
      <Asking store={store} question={question} />
      <div class="row wrap">
        <button id={first ? "first-question" : undefined} class="button main small" disabled={!able} onClick={() => answer(true)}>Approve</button>
        <button class="button small danger" disabled={!able} onClick={() => answer(false)}>Reject</button>
        <label class="row faint"><input type="checkbox" checked={remember} disabled={!able} onChange={(event) => setRemember(event.currentTarget.checked)} /> {question.network ? "and do not ask again" : "if approved, do not ask again"}</label>
        {(answering || question.answered) && <span class="faint">answered</span>}
        {!live && <span class="faint">it waited then</span>}
        {live && !mayOperate.value && <span class="faint">an operator has to answer</span>}
      </div>
    </article>
  );
}

/** All that is asked for, as the log has it: nobody should approve what they cannot see. */
function Asking({ store, question }: { store: SandboxStore; question: Question }) {
  void store.record.version.value;
  const row = question.network ? undefined : store.record.family("agent").findLast((each) => each.type === "agent.approval_requested" && text(each.data, "approval") === question.approval);
  const input = row ? object(row.data, "input") : {};
  const fields = Object.entries(input);
  if (fields.length === 0) return question.subject ? <pre class="subject" tabIndex={0}>{plainly(question.subject)}</pre> : null;
  const cut = row?.data["truncated"] === true || row?.cut;
  return (
    <dl class="subject inputs mono" tabIndex={0}>
      {fields.map(([key, value]) => <div key={key}><dt class="faint">{plainly(key)}</dt><dd>{plainly(typeof value === "string" ? value : JSON.stringify(value))}</dd></div>)}
      {cut && <div><dt class="faint">and more</dt><dd>This is not all of it: it was too large for the log.</dd></div>}
    </dl>
  );
}

function saidOf({ approval, network }: Question, yes: boolean, remember: boolean): Said {
  if (network) return { type: yes ? "network.approve" : "network.reject", approval, remember };
  return yes ? { type: "approve", approval, remember } : { type: "reject", approval };
}
