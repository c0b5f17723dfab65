import { expect, it } from "vitest";
import { rowOf, type Row } from "../src/story/row";
import { Shelf } from "../src/story/shelf";
import { Sieve } from "../src/story/sieve";

function row(sequence: number): Row {
  return rowOf(sequence, { id: "", source: "", type: "agent.message", time: "2026-01-01T00:00:00Z", sandboxid: "sb", data: {} });
}

it("keeps up with a shelf that grows at its end and before it, and looks at each row once", () => {
  const shelf = new Shelf();
  const looked: number[] = [];
  const sieve = new Sieve(shelf, ({ sequence }) => {
    looked.push(sequence);
    return sequence % 2 === 0;
  });
  const found = () => [...sieve.rows().rows()].map(({ sequence }) => sequence);
  [50, 51, 52].forEach((each) => shelf.append(row(each)));
  expect(found()).toEqual([50, 52]);
  [1, 2, 3].forEach((each) => shelf.fill(row(each)));
  shelf.append(row(54));
  expect(found()).toEqual([2, 50, 52, 54]);
  [4, 5].forEach((each) => shelf.fill(row(each)));
  expect(found()).toEqual([2, 4, 50, 52, 54]);
  expect(found()).toEqual([2, 4, 50, 52, 54]);
  expect(looked).toEqual([50, 51, 52, 1, 2, 3, 54, 4, 5]);
});
