/** Asks for the newest thing that is wanted, one at a time: a slider passes a hundred moments in a second. */

import { isAbort } from "../api/http";

export interface Latest<Q, A> {
  ask: (question: Q, take: (answer: A) => void, failed: (error: unknown) => void) => void;
  cancel: () => void;
}

export function latest<Q, A>(fetched: (question: Q, stop: AbortSignal) => Promise<A>): Latest<Q, A> {
  let wanted: (() => Promise<void>) | null = null;
  let busy = false;
  let stop = new AbortController();

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
      wanted = async () => {
        try {
          const answer = await fetched(question, held.signal);
          if (!held.signal.aborted) take(answer);
        } catch (error) {
          if (!isAbort(error) && !held.signal.aborted) failed(error);
        }
      };
      if (!busy) void go();
    },
    cancel() {
      wanted = null;
      stop.abort();
      stop = new AbortController();
    },
  };
}
