import { describe, expect, it } from "vitest";
import { boundsOf, KNOWN } from "../src/api/bounds";
import { emptyDraft, faultsOf, specOf } from "../src/state/draft";

describe("a draft of a sandbox", () => {
  it("says nothing that was not typed", () => {
    expect(specOf(emptyDraft())).toEqual({});
    expect(faultsOf(emptyDraft(), KNOWN)).toEqual({});
  });

  it("is checked by the bounds of the description", () => {
    const described = { components: { schemas: { Resources: { properties: { memory_mb: { minimum: 1, maximum: 9, default: 5 }, pids: {} } } } } };
    const bounds = boundsOf(described);
    expect(bounds.memory_mb).toEqual({ least: 1, most: 9, usual: 5 });
    expect(bounds.pids).toEqual(KNOWN.pids);
    const draft = { ...emptyDraft(), resources: { ...emptyDraft().resources, memory_mb: "10", cpus: "0.1", pids: "32.5" } };
    expect(faultsOf(draft, bounds)).toEqual({ memory_mb: "between 1 and 9", cpus: "between 0.5 and 16", pids: "a whole number" });
  });

  it("is a specification in the gateway's own words", () => {
    const draft = { ...emptyDraft(), isolation: "local" as const, mode: "restricted" as const, hosts: "a.example, *.b.example", ask: true, project: "orchard", labels: "team=garden\nx=1=2" };
    draft.resources = { ...draft.resources, timeout_ms: "5", cpus: "1.5" };
    expect(specOf(draft)).toEqual({
      isolation: "local",
      resources: { cpus: 1.5, timeout_ms: 300_000 },
      network: { mode: "restricted", allowed_hosts: ["a.example", "*.b.example"], unknown: "ask" },
      project_id: "orchard",
      labels: { team: "garden", x: "1=2" },
    });
  });

  it("names what is wrong", () => {
    const draft = { ...emptyDraft(), id: "a b", hosts: "https://x", project: "-", labels: "team" };
    expect(Object.keys(faultsOf(draft, KNOWN)).sort()).toEqual(["hosts", "id", "labels", "project"]);
    expect(Object.keys(faultsOf({ ...emptyDraft(), id: "x".repeat(65), task: "x".repeat(64) }, KNOWN))).toEqual(["id"]);
  });
});
