import { describe, expect, it } from "vitest";
import { advance } from "../src/state/player";
import { binsOf } from "../src/story/density";
import { Record } from "../src/story/record";
import { rowOf, type Row } from "../src/story/row";

function row(sequence: number, type = "agent.message", ms = sequence * 100): Row {
  return rowOf(sequence, { id: "", source: "", type, time: new Date(ms).toISOString(), sandboxid: "sb", data: {} });
}

function recorded(older: Row[], newer: Row[]): Record {
  const record = new Record((work) => work());
  newer.forEach((each) => record.append(each));
  older.forEach((each) => record.fill(each));
  return record;
}

describe("a record", () => {
  it("is in order though its past comes after what is new", () => {
    const record = recorded([row(1), row(3)], [row(7), row(9)]);
    record.append(row(11));
    expect([...record.rows()].map((each) => each.sequence)).toEqual([1, 3, 7, 9, 11]);
    expect(record.first?.sequence).toBe(1);
    expect(record.last?.sequence).toBe(11);
  });

  it("counts as the network's what was asked of it", () => {
    const record = recorded([row(1, "network.attached")], [row(2, "network.denied"), row(3, "network.unattached")]);
    expect([...record.family("network").rows()].map((each) => each.sequence)).toEqual([2, 3]);
    expect(record.length).toBe(3);
  });

  it("holds no event twice", () => {
    const record = recorded([row(1), row(1), row(7), row(8)], [row(7), row(7), row(6)]);
    expect([...record.rows()].map((each) => each.sequence)).toEqual([1, 7]);
  });

  it("says how many there were at a moment, also at one between two events", () => {
    const record = recorded([row(1), row(3)], [row(7), row(9)]);
    expect([0, 1, 2, 3, 8, 9, 99, null].map((at) => record.countTo(at))).toEqual([0, 1, 1, 2, 3, 4, 4, 4]);
  });

  it("keeps what views are made of apart, and the bytes of commands out of it", () => {
    const record = recorded([], [row(1, "command.started"), row(2, "command.output"), row(3, "file.created")]);
    expect(record.length).toBe(3);
    expect(record.facts.length).toBe(2);
    expect(record.family("command").length).toBe(1);
    expect(record.family("network").length).toBe(0);
  });

  it("keeps a hundred thousand outputs small", () => {
    const long = rowOf(1, { id: "", source: "", type: "command.output", time: "", sandboxid: "sb", data: { data: "x".repeat(9000), size: 9000 } });
    expect((long.data["data"] as string).length).toBe(200);
    expect(long.cut).toBe(true);
  });
});

describe("playing", () => {
  it("goes by the times of the events", () => {
    const record = recorded([], [row(1), row(2), row(3), row(4)]);
    expect(advance(record, 0, 50)).toEqual({ index: 0, left: 50 });
    expect(advance(record, 0, 250)).toEqual({ index: 2, left: 50 });
  });

  it("does not sit through a long pause", () => {
    const record = recorded([], [row(1, "agent.message", 0), row(2, "agent.message", 86_400_000)]);
    expect(advance(record, 0, 2000).index).toBe(1);
  });

  it("ends at the end", () => {
    expect(advance(recorded([], [row(1), row(2)]), 0, 1e9)).toEqual({ index: 1, left: 0 });
  });
});

describe("the strip", () => {
  it("has as many bins as there is room, or events", () => {
    const record = recorded([], Array.from({ length: 10 }, (_, index) => row(index + 1, index === 9 ? "agent.error" : "command.output")));
    expect(binsOf(record, 100)).toHaveLength(10);
    const bins = binsOf(record, 5);
    expect(bins).toHaveLength(5);
    expect(bins[4]?.parts).toEqual({ command: 1, trouble: 1 });
  });
});
