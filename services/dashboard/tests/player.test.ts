import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { advance, FASTEST, Player, SLOWEST } from "../src/state/player";
import { rowOf } from "../src/story/row";
import { Shelf } from "../src/story/shelf";

const SECOND = 1000;
const HOUR = 3600 * SECOND;

/** One event after each of these pauses; sequences are tens. */
function record(...pauses: number[]): Shelf {
  const shelf = new Shelf();
  let time = Date.parse("2026-03-14T09:00:00Z");
  for (const [index, pause] of [0, ...pauses].entries()) {
    time += pause;
    shelf.append(rowOf(10 * (index + 1), { id: "", source: "", type: "x.y", time: new Date(time).toISOString(), sandboxid: "sb", data: {} }));
  }
  return shelf;
}

describe("what is played", () => {
  it("comes as far as its time goes", () => {
    const shelf = record(100, 200, 300);
    expect(advance(shelf, 0, 99)).toEqual({ index: 0, left: 99 });
    expect(advance(shelf, 0, 100)).toEqual({ index: 1, left: 0 });
    expect(advance(shelf, 0, 350)).toEqual({ index: 2, left: 50 });
    expect(advance(shelf, 2, 5000)).toEqual({ index: 3, left: 0 });
    expect(advance(shelf, -1, 0).index).toBe(0);
  });

  it("does not wait through a night, nor for a clock that was set back", () => {
    expect(advance(record(8 * HOUR, 500), 0, 2 * SECOND)).toEqual({ index: 1, left: 0 });
    expect(advance(record(8 * HOUR, 500), 0, 2 * SECOND - 1).index).toBe(0);
    expect(advance(record(-HOUR, 500), 0, 0).index).toBe(1);
  });
});

describe("a player", () => {
  let moment: number | null;
  let shown: (number | null)[];
  const player = (shelf: Shelf) => new Player({ record: shelf, moment: () => moment, show: (at) => { moment = at; shown.push(at); } });

  beforeEach(() => {
    vi.useFakeTimers();
    [moment, shown] = [null, []];
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([0.1, 0.5, 1, 3.7, 64])("takes as long as its speed says: %s", (speed) => {
    const steps = 600;
    const made = player(record(...Array.from({ length: steps }, () => SECOND)));
    moment = 10;
    expect(made.setSpeed(speed)).toBe(true);
    made.start();
    const begun = performance.now();
    vi.advanceTimersByTime((steps / 2 / speed) * SECOND);
    const at = (moment ?? 0) / 10 - 1;
    expect(Math.abs(at - ((performance.now() - begun) * speed) / SECOND)).toBeLessThan(1 + 0.06 * speed);
    made.stop();
    const stopped = moment;
    vi.advanceTimersByTime(HOUR);
    expect(moment).toBe(stopped);
  });

  it("goes on from the same moment at another speed", () => {
    const made = player(record(...Array.from({ length: 100 }, () => SECOND)));
    moment = 10;
    made.setSpeed(1);
    made.start();
    vi.advanceTimersByTime(10.1 * SECOND);
    expect(moment).toBe(110);
    made.setSpeed(10);
    vi.advanceTimersByTime(SECOND);
    expect(moment).toBeGreaterThanOrEqual(200);
    expect(moment).toBeLessThanOrEqual(220);
  });

  it("begins at the beginning where somebody looks at now, shows each moment in order, and ends live", () => {
    const made = player(record(SECOND, 8 * HOUR, SECOND));
    made.setSpeed(1);
    made.toggle();
    vi.advanceTimersByTime(2.9 * SECOND);
    expect([shown, made.playing.value]).toEqual([[10, 20], true]);
    vi.advanceTimersByTime(0.2 * SECOND);
    expect(shown).toEqual([10, 20, 30]);
    vi.advanceTimersByTime(SECOND);
    expect([shown, made.playing.value]).toEqual([[10, 20, 30, null], false]);
  });

  it("takes any speed between its bounds, and no other", () => {
    const made = player(record());
    made.setSpeed(3.3);
    for (const wrong of [0, -1, NaN, SLOWEST / 2, FASTEST * 2, Infinity]) expect(made.setSpeed(wrong)).toBe(false);
    expect(made.speed.value).toBe(3.3);
  });
});
