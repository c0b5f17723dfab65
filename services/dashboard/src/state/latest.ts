/** Asks for the newest thing that is wanted, one at a time: a slider passes a hundred moments in a second. */

import { isAbort } from "../api/http";
import { isPassing } from "../api/problem";
import { waitMs } from "../live/backoff";

export interface Latest<Q, A> {
  /** What fails because the gateway is away is told, and asked again until it is answered or something else is wanted. */
  ask: (question: Q, take: (answer: A) => void, failed: (error: unknown) => void) => void;
  cancel: () => void;
}

export function latest<Q, A>(fetched: (question: Q, stop: AbortSignal) => Promise<A>): Latest<Q, A> {
  let wanted: (() => Promise<void>) | null = null;
  let busy = false;
  let stop = new AbortController();
  let hurry = (): void => undefined;

  function pause(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      hurry = () => { clearTimeout(timer); done(); };
    });
  }

  async function go(): Promise<void> {
    busy = true;
    while (wanted !== null) {
      const next: () => Promise<void> = wanted;
      wanted = null;
      await next();
    }
    busy = false;
  }

  return {
    ask(question, take, failed) {
      const held = stop;
      const asked = async (attempt: number): Promise<void> => {
        try {
          const answer = await fetched(question, held.signal);
          if (!held.signal.aborted) take(answer);
        } catch (error) {
          if (isAbort(error) || held.signal.aborted) return;
          failed(error);
          if (!isPassing(error)) return;
          if (wanted === null) await pause(waitMs(attempt, Math.random()));
          if (!held.signal.aborted) wanted ??= () => asked(attempt + 1);
        }
      };
      wanted = () => asked(0);
      hurry();
      if (!busy) void go();
    },
    cancel() {
      wanted = null;
      stop.abort();
      hurry();
      stop = new AbortController();
    },
  };
}
