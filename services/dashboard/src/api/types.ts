/** What the gateway says, as in docs/openapi.json and contracts/. Fields that no view looks at are left out. */

export type Status =
  | "creating" | "running" | "paused" | "stopped" | "completed" | "failed" | "error" | "removed";
export type Role = "viewer" | "operator" | "admin";
export type Isolation = "docker" | "devcontainer" | "local";
export type NetworkMode = "none" | "restricted" | "full";

export interface Failure {
  code: string;
  message: string;
}

export interface Exit {
  code: number | null;
  signal: number | null;
}

export interface Totals {
  stdin: number;
  stdout: number;
  stderr: number;
  pty: number;
}

export interface CommandState {
  exec: string;
  argv: string[];
  started_at: string | null;
  first_sequence: number;
  totals: Totals;
  pty: boolean;
  outcome: string | null;
  exit: Exit | null;
  cause: string | null;
  duration_ms: number | null;
}

export interface Pending {
  approval: string;
  tool: string;
  subject: string;
  reason: string;
  asked_at: string;
  expires_at: string | null;
  answered: boolean;
}

export interface Queued {
  order: string;
  kind: string;
  text: string;
  by: string;
  at: string;
}

export type RunStatus = "running" | "waiting" | "paused" | "completed" | "failed";

export interface RunState {
  run: string;
  runtime: string;
  status: RunStatus;
  prompt: string;
  model: string | null;
  process: string | null;
  turns: number;
  tokens: number;
  cost_usd: number;
  tool_calls: number;
  queued: Queued[];
  queued_more: number;
  pending: Pending[];
  pending_more: number;
  started_at: string;
  ended_at: string | null;
  reason: string;
}

export interface NetworkAsk {
  approval: string;
  host: string;
  port: number;
  method: string;
  asked_at: string;
  expires_at: string;
}

export interface Resources {
  memory_mb: number;
  cpus: number;
  pids: number;
  disk_mb: number;
  timeout_ms: number;
}

export interface SandboxSpec {
  isolation: Isolation | null;
  resources: Resources;
  network: { mode: NetworkMode; allowed_hosts: string[]; allowed_ports: number[] };
  agent_id: string | null;
  project_id: string | null;
  task_id: string | null;
  labels: Record<string, string>;
}

export interface SandboxState {
  sandbox: string;
  status: Status;
  node: string;
  isolation: Isolation;
  spec: SandboxSpec;
  workspace: string;
  notes: string[];
  enforcement: Record<string, string>;
  created_at: string;
  started_at: string | null;
  completed_at: string | null;
  last_event_at: string;
  first_sequence: number;
  applied_sequence: number;
  error: Failure | null;
  health: string;
  retries: number;
  running: Record<string, CommandState>;
  recent: CommandState[];
  commands: number;
  tool_calls: number;
  cost_usd: number;
  tokens: number;
  approvals: { pending: NetworkAsk[] };
  runs: RunState[];
}

export interface SandboxPage {
  sandboxes: SandboxState[];
  next: string | null;
}

/** An event as it stands in the log. */
export interface LogEvent {
  id: string;
  source: string;
  type: string;
  time: string;
  sandboxid: string;
  correlationid?: string | null;
  data: Record<string, unknown>;
}

export interface LoggedEvent {
  sequence: number;
  event: LogEvent;
}

/** Sequences that the log has lost. */
export interface Lack {
  first_sequence: number;
  last_sequence: number;
}

export interface SandboxDetail {
  sandbox: SandboxState;
  events: LoggedEvent[];
  lacking: Lack[];
  head_sequence: number;
}

export interface Use {
  cpu_percent: number;
  memory_bytes: number;
  processes: number;
  disk_bytes: number;
  network_in_bytes: number | null;
  network_out_bytes: number | null;
}

export interface StateAt {
  sequence: number;
  time: string;
  state: SandboxState;
  use: Use | null;
}

export interface Screen {
  exec: string;
  sequence: number;
  pty: boolean;
  cols: number;
  rows: number;
  lines: string[];
  scrollback: string[];
  cursor_x: number;
  cursor_y: number;
  cursor_hidden: boolean;
  alternate: boolean;
  bytes: number;
  ended: boolean;
  truncated: boolean;
}

export type EntryKind = "file" | "directory" | "symlink" | "other";

export interface Session {
  subject: string;
  role: Role;
  scope: {
    /** None = they may make a sandbox of any project, or of none. */
    projects: string[];
  };
}

export interface Sample {
  at: string;
  use: Use;
}

export interface Vitals {
  sandbox: string;
  health: string;
  beat_at: string | null;
  current: Sample | null;
  recent: Sample[];
}

/** Paths are relative to the workspace. */
export interface FileInfo {
  path: string;
  path_bytes?: string | null;
  kind: EntryKind;
  size: number;
  mode: number;
  mtime_us?: number | null;
  sha256?: string | null;
  symlink?: string | null;
}

export interface FilePage {
  sequence: number;
  workspace: string;
  entries: FileInfo[];
  next: string | null;
}
