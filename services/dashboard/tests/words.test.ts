import { expect, test } from "vitest";
import { eventLine } from "../src/story/event_line";
import { rowOf } from "../src/story/row";
import { bytes, clock, counted, moment, plainly } from "../src/story/words";

test("what somebody decides upon hides nothing and turns nothing around", () => {
  expect(plainly("ls -la\n\tcafé 漢字 🙂")).toBe("ls -la\n\tcafé 漢字 🙂");
  expect(plainly("rm \u202Etxt.exe\u202C")).toBe("rm ⟨U+202E⟩txt.exe⟨U+202C⟩");
  expect(plainly("a\u200Bb\rc\u2028d\u{E0041}")).toBe("a⟨U+200B⟩b⟨U+000D⟩c⟨U+2028⟩d⟨U+E0041⟩");
});

test("a line about an order that was refused says why", () => {
  const data = { subject: "cloche.cmd.local.sb.agent.message", reason: { code: "SANDBOX_INVALID_STATE", message: "no run is open" } };
  const row = rowOf(1, { id: "", source: "", type: "dead_letter.agent", time: "2026-01-01T00:00:00Z", sandboxid: "sb", data });
  expect(eventLine(row)).toBe("no run is open · cloche.cmd.local.sb.agent.message");
});

test("amounts are as the command line says them, and as a specification means them", () => {
  expect([0, 999, 1000, 6 * 2 ** 20, 4096 * 2 ** 20, 123 * 2 ** 30].map(bytes)).toEqual(["0 B", "999 B", "1.0 KiB", "6.0 MiB", "4.0 GiB", "123 GiB"]);
  expect([counted(1, "tool call"), counted(1200, "event")]).toEqual(["1 tool call", `${(1200).toLocaleString()} events`]);
});

test("a moment is of its day, and a day begins at zero", () => {
  const midnight = new Date(2026, 2, 14, 0, 0, 5).getTime();
  expect(clock(midnight)).toBe("00:00:05");
  expect(moment(midnight, midnight + 3_600_000)).toBe("00:00:05");
  expect(moment(midnight, midnight + 24 * 3_600_000)).toMatch(/14.*2026.* 00:00:05$/);
});
