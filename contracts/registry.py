"""Every tag ever released, and the Struct that it stands for. A breaking change is a new tag here."""

from contracts import subjects
from contracts.commands import agent as agent_orders
from contracts.commands import audit as audit_orders
from contracts.commands import command as command_orders
from contracts.commands import network as network_orders
from contracts.commands import node as node_orders
from contracts.commands import replay as replay_orders
from contracts.commands import sandbox as sandbox_orders
from contracts.events import agent, audit, command, file, guardian, health, network, node, sandbox, tool
from contracts.message import Fact, Order

EVENTS: dict[str, type[Fact]] = {
    "sandbox.creating": sandbox.SandboxCreating,
    "sandbox.created": sandbox.SandboxCreated,
    "sandbox.started": sandbox.SandboxStarted,
    "sandbox.paused": sandbox.SandboxPaused,
    "sandbox.resumed": sandbox.SandboxResumed,
    "sandbox.stopped": sandbox.SandboxStopped,
    "sandbox.removed": sandbox.SandboxRemoved,
    "sandbox.failed": sandbox.SandboxFailed,
    "sandbox.snapshotted": sandbox.SandboxSnapshotted,
    "sandbox.recovering": sandbox.SandboxRecovering,
    "sandbox.recovered": sandbox.SandboxRecovered,
    "sandbox.network_changed": sandbox.SandboxNetworkChanged,
    "health.healthy": health.HealthHealthy,
    "health.unhealthy": health.HealthUnhealthy,
    "health.limit_exceeded": health.HealthLimitExceeded,
    "health.died": health.HealthDied,
    "command.started": command.CommandStarted,
    "command.input": command.CommandInput,
    "command.output": command.CommandOutput,
    "command.completed": command.CommandCompleted,
    "command.timed_out": command.CommandTimedOut,
    "command.cancelled": command.CommandCancelled,
    "command.rejected": command.CommandRejected,
    "command.lost": command.CommandLost,
    "file.created": file.FileCreated,
    "file.modified": file.FileModified,
    "file.deleted": file.FileDeleted,
    "file.moved": file.FileMoved,
    "file.batch": file.FileBatch,
    "file.ready": file.FileReady,
    "file.manifest": file.FileManifest,
    "file.overflow": file.FileOverflow,
    "file.error": file.FileError,
    "tool.invoked": tool.ToolInvoked,
    "tool.returned": tool.ToolReturned,
    "agent.started": agent.AgentStarted,
    "agent.attached": agent.AgentAttached,
    "agent.thinking": agent.AgentThinking,
    "agent.message": agent.AgentMessage,
    "agent.tool_use": agent.AgentToolUse,
    "agent.tool_result": agent.AgentToolResult,
    "agent.approval_requested": agent.AgentApprovalRequested,
    "agent.approved": agent.AgentApproved,
    "agent.rejected": agent.AgentRejected,
    "agent.interrupted": agent.AgentInterrupted,
    "agent.paused": agent.AgentPaused,
    "agent.resumed": agent.AgentResumed,
    "agent.waiting": agent.AgentWaiting,
    "agent.closing": agent.AgentClosing,
    "agent.delivered": agent.AgentDelivered,
    "agent.transcript": agent.AgentTranscript,
    "agent.metrics": agent.AgentMetrics,
    "agent.completed": agent.AgentCompleted,
    "agent.error": agent.AgentError,
    "user.message": agent.UserMessage,
    "user.guidance": agent.UserGuidance,
    "user.interrupt": agent.UserInterrupt,
    "user.approve": agent.UserApprove,
    "user.reject": agent.UserReject,
    "user.pause": agent.UserPause,
    "user.resume": agent.UserResume,
    "user.stop": agent.UserStop,
    "guardian.observed": guardian.GuardianObserved,
    "guardian.intervention": guardian.GuardianIntervention,
    "guardian.escalated": guardian.GuardianEscalated,
    "network.allowed": network.NetworkAllowed,
    "network.denied": network.NetworkDenied,
    "network.batch": network.NetworkBatch,
    "network.asked": network.NetworkAsked,
    "network.approved": network.NetworkApproved,
    "network.rejected": network.NetworkRejected,
    "network.attached": network.NetworkAttached,
    "network.unattached": network.NetworkUnattached,
    "audit.checkpoint": audit.AuditCheckpoint,
    "audit.rotated": audit.AuditRotated,
    "audit.standby": audit.AuditStandby,
    "audit.heir": audit.AuditHeir,
    "audit.damaged": audit.AuditDamaged,
    "node.joined": node.NodeJoined,
    "node.draining": node.NodeDraining,
    "node.kept": node.NodeKept,
    "node.drained": node.NodeDrained,
    "node.resumed": node.NodeResumed,
    "node.lost": node.NodeLost,
    "node.returned": node.NodeReturned,
}

VITALS: dict[str, type[Fact]] = {
    "vitals.heartbeat": health.VitalsHeartbeat,
    "vitals.metrics": health.VitalsMetrics,
    "vitals.node": node.VitalsNode,
}

COMMANDS: dict[str, type[Order]] = {
    "sandbox.create": sandbox_orders.CreateSandbox,
    "sandbox.start": sandbox_orders.StartSandbox,
    "sandbox.stop": sandbox_orders.StopSandbox,
    "sandbox.pause": sandbox_orders.PauseSandbox,
    "sandbox.resume": sandbox_orders.ResumeSandbox,
    "sandbox.remove": sandbox_orders.RemoveSandbox,
    "sandbox.snapshot": sandbox_orders.SnapshotSandbox,
    "sandbox.recover": sandbox_orders.RecoverSandbox,
    "sandbox.fork": sandbox_orders.ForkSandbox,
    "sandbox.network": sandbox_orders.ChangeNetwork,
    "command.run": command_orders.RunCommand,
    "command.input": command_orders.InputCommand,
    "command.signal": command_orders.SignalCommand,
    "command.resize": command_orders.ResizeCommand,
    "agent.start": agent_orders.StartAgent,
    "agent.message": agent_orders.MessageAgent,
    "agent.guidance": agent_orders.GuideAgent,
    "agent.interrupt": agent_orders.InterruptAgent,
    "agent.approve": agent_orders.ApproveAgent,
    "agent.reject": agent_orders.RejectAgent,
    "agent.pause": agent_orders.PauseAgent,
    "agent.resume": agent_orders.ResumeAgent,
    "agent.stop": agent_orders.StopAgent,
    "network.approve": network_orders.ApproveNetwork,
    "network.reject": network_orders.RejectNetwork,
    "replay.start": replay_orders.StartReplay,
    "replay.pause": replay_orders.PauseReplay,
    "replay.resume": replay_orders.ResumeReplay,
    "replay.seek": replay_orders.SeekReplay,
    "replay.step": replay_orders.StepReplay,
    "replay.stop": replay_orders.StopReplay,
    "audit.rotate": audit_orders.RotateAuditKey,
    "node.drain": node_orders.DrainNode,
    "node.lose": node_orders.LoseNode,
}

_EVENT_TAGS: dict[type[Fact], str] = {kind: tag for tag, kind in {**EVENTS, **VITALS}.items()}
_COMMAND_TAGS: dict[type[Order], str] = {kind: tag for tag, kind in COMMANDS.items()}


def event_type(tag: str) -> type[Fact] | None:
    """None for a tag that this version does not know."""
    if tag.startswith(f"{subjects.DEAD_LETTER}."):
        return audit.DeadLetter
    return EVENTS.get(tag) or VITALS.get(tag)


def tag_of(fact: Fact) -> str:
    """A dead letter has no tag of its own: it is `dead_letter.<service>`."""
    return _EVENT_TAGS[type(fact)]


def command_tag(order: Order) -> str:
    return _COMMAND_TAGS[type(order)]


def scope_of(fact: Fact) -> str | None:
    """The exec or run that an event belongs to: the last token of its subject."""
    scope = getattr(fact, "exec", None) or getattr(fact, "run", None)
    return scope if isinstance(scope, str) else None
