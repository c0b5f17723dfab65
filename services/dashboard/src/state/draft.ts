/** A sandbox that somebody is about to ask for, and what is wrong with it. */

import { KNOWN, type Bounds, type ResourceName } from "../api/bounds";
import type { Isolation, NetworkMode } from "../api/types";

export interface Draft {
  id: string;
  isolation: Isolation | "";
  resources: Record<ResourceName, string>;
  mode: NetworkMode | "";
  hosts: string;
  ask: boolean;
  project: string;
  task: string;
  labels: string;
}

export function emptyDraft(bounds: Bounds = KNOWN): Draft {
  const resources = Object.fromEntries(Object.keys(bounds).map((name) => [name, ""])) as Draft["resources"];
  return { id: "", isolation: "", resources, mode: "", hosts: "", ask: false, project: "", task: "", labels: "" };
}

export type Faults = Partial<Record<ResourceName | "id" | "hosts" | "project" | "task" | "labels", string>>;

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const HOST = /^(\*\.)?[A-Za-z0-9._:\u00a1-\uffff-]{1,253}$/;

export function faultsOf(draft: Draft, bounds: Bounds): Faults {
  const faults: Faults = {};
  for (const name of ["id", "project", "task"] as const) {
    if (draft[name] && !NAME.test(draft[name])) faults[name] = "letters, digits, - and _, 64 at most";
  }
  for (const [name, text] of Object.entries(draft.resources) as [ResourceName, string][]) {
    const { least, most } = bounds[name];
    const value = valueOf(name, text);
    if (text !== "" && !(value >= least && value <= most)) {
      faults[name] = `between ${inField(name, least)} and ${inField(name, most)}`;
    } else if (text !== "" && name !== "cpus" && !Number.isInteger(value)) faults[name] = "a whole number";
  }
  const wrong = words(draft.hosts).find((host) => !HOST.test(host));
  if (wrong !== undefined) faults.hosts = `${wrong.slice(0, 60)} is no host: a name, or *. and a name`;
  const label = lines(draft.labels).find((each) => !/^[^=\s]+=/.test(each));
  if (label !== undefined) faults.labels = `${label.slice(0, 60)}: as in team=garden`;
  return faults;
}

/** Only what differs from the node's defaults. */
export function specOf(draft: Draft): Record<string, unknown> {
  const spec: Record<string, unknown> = {};
  if (draft.isolation) spec["isolation"] = draft.isolation;
  const given = (Object.entries(draft.resources) as [ResourceName, string][]).filter(([, text]) => text !== "");
  if (given.length) spec["resources"] = Object.fromEntries(given.map(([name, text]) => [name, valueOf(name, text)]));
  const network: Record<string, unknown> = {};
  if (draft.mode) network["mode"] = draft.mode;
  if (draft.mode === "restricted" && draft.hosts.trim()) network["allowed_hosts"] = words(draft.hosts);
  if (draft.mode === "restricted" && draft.ask) network["unknown"] = "ask";
  if (Object.keys(network).length) spec["network"] = network;
  if (draft.project) spec["project_id"] = draft.project;
  if (draft.task) spec["task_id"] = draft.task;
  const labels = lines(draft.labels).map((each) => [each.slice(0, each.indexOf("=")), each.slice(each.indexOf("=") + 1)]);
  if (labels.length) spec["labels"] = Object.fromEntries(labels);
  return spec;
}

const MINUTE = 60_000;

/** A time limit is typed in minutes. */
export function inField(name: ResourceName, value: number): number {
  return name === "timeout_ms" ? value / MINUTE : value;
}

function valueOf(name: ResourceName, text: string): number {
  return name === "timeout_ms" ? Number(text) * MINUTE : Number(text);
}

function words(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function lines(text: string): string[] {
  return text.split(/[\n,]+/).map((each) => each.trim()).filter(Boolean);
}
