import type { ComponentChildren } from "preact";
import type { RunStatus, Status } from "../api/types";

export type PillTone = "plain" | "good" | "warn" | "bad" | "info";

export function Pill({ tone = "plain", bare = false, beating = false, children }: { tone?: PillTone; bare?: boolean; beating?: boolean; children: ComponentChildren }) {
  return <span class={`pill ${tone} ${bare ? "bare" : ""} ${beating ? "beating" : ""}`}>{children}</span>;
}

const STATUS: Record<Status, PillTone> = {
  creating: "info", running: "good", paused: "warn", stopped: "plain", completed: "plain",
  failed: "bad", error: "bad", removed: "plain",
};

export function StatusPill({ status }: { status: Status }) {
  return <Pill tone={STATUS[status] ?? "plain"} beating={status === "creating"}>{status}</Pill>;
}

const RUN: Record<RunStatus, PillTone> = {
  running: "good", waiting: "info", paused: "warn", completed: "plain", failed: "bad",
};

export function RunPill({ status, asks }: { status: RunStatus; asks: boolean }) {
  if (asks) return <Pill tone="warn" beating>asks for leave</Pill>;
  return <Pill tone={RUN[status] ?? "plain"} beating={status === "running"}>{status === "running" ? "working" : status}</Pill>;
}

const HEALTH: Record<string, PillTone> = { healthy: "good", unhealthy: "warn", died: "bad" };

export function HealthPill({ health }: { health: string }) {
  return <Pill tone={HEALTH[health] ?? "plain"}>{health}</Pill>;
}
