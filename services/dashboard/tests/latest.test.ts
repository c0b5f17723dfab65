import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Problem, unreachable } from "../src/api/problem";
import { latest } from "../src/state/latest";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function asking(answer: (question: number, time: number) => Promise<string>) {
  const [asked, taken, failed]: [number[], string[], string[]] = [[], [], []];
  const one = latest<number, string>((question) => {
    asked.push(question);
    return answer(question, asked.length);
  });
  const ask = (question: number) => one.ask(question, (found) => taken.push(found), (error) => failed.push((error as Error).message));
  return { asked, taken, failed, ask, cancel: one.cancel };
}

it("asks again what nobody answered, until somebody does", async () => {
  const { asked, taken, failed, ask } = asking(async (question, time) => {
    if (time < 4) throw unreachable(false);
    return `answer ${question}`;
  });
  ask(7);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([asked, taken, failed.length]).toEqual([[7, 7, 7, 7], ["answer 7"], 3]);
});

it("leaves what was refused, and what nobody wants any more", async () => {
  const refused = asking(async () => { throw new Problem(404, "SANDBOX_NOT_FOUND", "there is none"); });
  refused.ask(1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([refused.asked, refused.failed]).toEqual([[1], ["there is none"]]);
  const left = asking(async () => { throw unreachable(false); });
  left.ask(1);
  await vi.advanceTimersByTimeAsync(1);
  left.cancel();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(left.asked).toEqual([1]);
});

it("does not let the newest thing wait for an older one to be answered", async () => {
  const { asked, taken, ask } = asking(async (question) => {
    if (question === 1) throw unreachable(false);
    return `answer ${question}`;
  });
  ask(1);
  await vi.advanceTimersByTimeAsync(1);
  ask(2);
  await vi.advanceTimersByTimeAsync(0);
  expect([asked, taken]).toEqual([[1, 2], ["answer 2"]]);
});
