import { expect, test } from "vitest";
import { eventLine } from "../src/story/event_line";
import { rowOf } from "../src/story/row";
import { plainly } from "../src/story/words";

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
