import { expect, test } from "vitest";
import { plainly } from "../src/story/words";

test("what somebody decides upon hides nothing and turns nothing around", () => {
  expect(plainly("ls -la\n\tcafé 漢字 🙂")).toBe("ls -la\n\tcafé 漢字 🙂");
  expect(plainly("rm \u202Etxt.exe\u202C")).toBe("rm ⟨U+202E⟩txt.exe⟨U+202C⟩");
  expect(plainly("a\u200Bb\rc\u2028d\u{E0041}")).toBe("a⟨U+200B⟩b⟨U+000D⟩c⟨U+2028⟩d⟨U+E0041⟩");
});
