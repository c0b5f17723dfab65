"""One hand-written sample of every tag, in its envelope, with fixed ids and times."""

import datetime

import msgspec

from contracts.agents import ApprovalRule, TypedRule, Verdict
from contracts.commands import agent as agent_orders
from contracts.commands import audit as audit_orders
from contracts.commands import command as command_orders
from contracts.commands import network as network_orders
from contracts.commands import node as node_orders
from contracts.commands import replay as replay_orders
from contracts.commands import sandbox as sandbox_orders
from contracts.commands.command import PtySize
from contracts.errors import Failure
from contracts.events import agent, audit, command, file, guardian, health, network, node, sandbox, tool
from contracts.message import Command, Event, Fact, Order
from contracts.payload import Encoding
from contracts.spec import (
    Devcontainer,
    Docker,
    Environment,
    GitWorktree,
    Isolation,
    Mount,
    Network,
    NetworkMode,
    Permissions,
    Preset,
    Resources,
    Restart,
    RestartPolicy,
    SandboxSpec,
    Secret,
    UnknownHost,
    Workspace,
)

TIME = datetime.datetime(2026, 3, 14, 15, 9, 26, 535897, tzinfo=datetime.UTC)
SANDBOX = "sb-1"
NODE = "node-1"
EXEC = "exec-1"
RUN = "run-1"
BY = "gateway/alice"
SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
FAILURE = Failure(code="CONFLICT", message="somebody wrote first", retryable=True, details={"sequence": "41"})

SPEC = SandboxSpec(
    isolation=Isolation.LOCAL,
    resources=Resources(memory_mb=1024, cpus=1.5, pids=64, disk_mb=2048, timeout_ms=60_000),
    network=Network(
        mode=NetworkMode.NONE,
        allowed_hosts=("*.example.org",),
        allowed_ports=(443,),
        presets=(Preset.PIP,),
        unknown=UnknownHost.ASK,
        ask_timeout_ms=60_000,
    ),
    environment=Environment(passthrough=("LANG",), set={"GREETING": "grüß"}, blocked=("SECRET_KEY",), inherit_all=True),
    secrets=(
        Secret(
            name="github", host="api.github.com", port=8443, env="GITHUB_API_URL", header="X-Token", template="{secret}"
        ),
    ),
    workspace=Workspace(path="/work", source=GitWorktree(repository="/srv/repo", ref="main", branch="agent/a/t")),
    permissions=Permissions(read=("src",), write=("out",)),
    docker=Docker(image="alpine:3", mounts=(Mount(source="/srv", target="/mnt", read_only=False),), runtime="runsc"),
    devcontainer=Devcontainer(config="dev.json", features={"git": {"version": "2", "lfs": True}}),
    restart=Restart(policy=RestartPolicy.ALWAYS, max_attempts=5, backoff_ms=250),
    idle_stop_ms=600_000,
    agent_id="agent-1",
    project_id="project-1",
    task_id="task-1",
    labels={"team": "garden"},
    node_labels={"zone": "a"},
)

_FACTS: dict[str, Fact] = {
    "sandbox.creating": sandbox.SandboxCreating(spec=SPEC, isolation=Isolation.LOCAL, node=NODE, by=BY),
    "sandbox.created": sandbox.SandboxCreated(
        node=NODE,
        isolation=Isolation.DOCKER,
        workspace="/work",
        enforcement={"memory": "cgroup"},
        environment=("PATH",),
        blocked=("SECRET_KEY",),
        notes=("restricted is none",),
        container="c0ffee",
    ),
    "sandbox.started": sandbox.SandboxStarted(instance="life-1", by=BY),
    "sandbox.paused": sandbox.SandboxPaused(by=BY),
    "sandbox.resumed": sandbox.SandboxResumed(by=BY),
    "sandbox.stopped": sandbox.SandboxStopped(reason="out of memory", failure=FAILURE, by=BY),
    "sandbox.removed": sandbox.SandboxRemoved(reason="asked", by=BY),
    "sandbox.failed": sandbox.SandboxFailed(failure=FAILURE),
    "sandbox.snapshotted": sandbox.SandboxSnapshotted(
        manifest=SHA, files=3, size=4096, label="before", sequence=41, by=BY
    ),
    "sandbox.recovering": sandbox.SandboxRecovering(attempt=2, reason="died", node=NODE, sequence=40, by=BY),
    "sandbox.recovered": sandbox.SandboxRecovered(
        attempt=2, node=NODE, instance="life-2", restored_sequence=40, notes=("workspace: 3 entries",)
    ),
    "sandbox.network_changed": sandbox.SandboxNetworkChanged(network=SPEC.network, by=BY),
    "health.healthy": health.HealthHealthy(reason="answers"),
    "health.unhealthy": health.HealthUnhealthy(reason="silent"),
    "health.limit_exceeded": health.HealthLimitExceeded(limit="disk", allowed=1024.5, used=2048.0, action="stop"),
    "health.died": health.HealthDied(
        cause=health.DeathCause.OOM,
        detail="oom_kill 1",
        exit_code=137,
        signal=9,
        last_output="Killed",
        instance="life-1",
        action=health.DeathAction.RECOVER,
        due=TIME,
        looked_at=("the container's state",),
    ),
    "command.started": command.CommandStarted(
        exec=EXEC,
        argv=("sh", "-c", "echo 'ü'"),
        cwd="/work",
        environment=("LANG",),
        pty=command.TerminalSize(rows=50, cols=132),
        stdin=True,
        timeout_ms=1000,
        asker=command_orders.Asker.AGENT,
        by=BY,
    ),
    "command.input": command.CommandInput(
        exec=EXEC,
        offset=0,
        size=3,
        data="ls\n",
        encoding=Encoding.UTF8,
        eof=True,
        resize=command.TerminalSize(rows=5, cols=10),
    ),
    "command.output": command.CommandOutput(
        exec=EXEC,
        stream=command.Stream.STDERR,
        offset=7,
        size=2,
        data="//4=",
        encoding=Encoding.BASE64,
        after_exit=True,
    ),
    "command.completed": command.CommandCompleted(
        exec=EXEC,
        exit=command.Exit(code=3),
        duration_ms=12.5,
        totals=command.Totals(stdin=1, stdout=2, stderr=3, pty=4),
        usage=command.Usage(user_s=0.25, system_s=0.5, max_rss_kb=900),
        cause="exited",
    ),
    "command.timed_out": command.CommandTimedOut(
        exec=EXEC,
        limit_ms=1000,
        exit=command.Exit(signal=9, core=True),
        duration_ms=1001.5,
        totals=command.Totals(stdout=2),
        usage=command.Usage(user_s=1.5, system_s=0.5, max_rss_kb=7),
        cause="time limit",
    ),
    "command.cancelled": command.CommandCancelled(
        exec=EXEC,
        exit=None,
        duration_ms=8.0,
        totals=command.Totals(stderr=2),
        cause="asked",
        usage=command.Usage(user_s=0.5, system_s=1.5, max_rss_kb=8),
    ),
    "command.rejected": command.CommandRejected(exec=EXEC, failure=FAILURE, cause="not running"),
    "command.lost": command.CommandLost(
        exec=EXEC, cause="keeper died", detail="pid 7 is gone", totals=command.Totals(pty=9)
    ),
    "file.created": file.FileCreated(
        path="/work/a\\xff",
        path_bytes="L3dvcmsvYf8=",
        facts=file.FileFacts(size=4, mode=0o644, sha256=SHA, blob=SHA, diff="+a\n", mtime_us=1_773_500_966_535_897),
    ),
    "file.modified": file.FileModified(
        path="/work/a\\xff",
        path_bytes="L3dvcmsvYf8=",
        facts=file.FileFacts(
            size=2, mode=0o777, symlink="b\\xff", symlink_bytes="Yv8=", kind=file.EntryKind.SYMLINK, mtime_us=7
        ),
    ),
    "file.deleted": file.FileDeleted(path="/work/a\\xff", path_bytes="L3dvcmsvYf8="),
    "file.moved": file.FileMoved(
        path="/work/b\\xff",
        path_bytes="L3dvcmsvYv8=",
        moved_from="/work/a\\xff",
        moved_from_bytes="L3dvcmsvYf8=",
        facts=file.FileFacts(size=5, mode=0o600, mtime_us=7),
    ),
    "file.batch": file.FileBatch(
        changes=(
            file.FileChange(action=file.Action.DELETED, path="/work/a"),
            file.FileChange(
                action=file.Action.MOVED,
                path="/work/c\\xff",
                path_bytes="L3dvcmsvY/8=",
                moved_from="/work/b\\xff",
                moved_from_bytes="L3dvcmsvYv8=",
                facts=file.FileFacts(size=0, mode=0o777, kind=file.EntryKind.DIRECTORY),
            ),
        )
    ),
    "file.ready": file.FileReady(files=12, manifest=SHA),
    "file.manifest": file.FileManifest(manifest=SHA, files=12, bytes=4096),
    "file.overflow": file.FileOverflow(reason="queue full"),
    "file.error": file.FileError(path="/work/a\\xff", path_bytes="L3dvcmsvYf8=", failure=FAILURE),
    "tool.invoked": tool.ToolInvoked(call="call-1", tool="read", arguments={"path": "a", "limit": 3}, by=BY),
    "tool.returned": tool.ToolReturned(
        call="call-1", tool="read", duration_ms=1.5, summary={"bytes": 4}, failure=FAILURE
    ),
    "agent.started": agent.AgentStarted(
        run=RUN,
        runtime="claude",
        prompt="grow",
        model="m-1",
        resumed="run-0",
        max_budget_usd=2.5,
        max_tokens=1000,
        max_turns=7,
        timeout_ms=60_000,
        keep_open=True,
        approvals=(ApprovalRule(tool="Bash", pattern="git push*", verdict=Verdict.ASK, reason="it leaves the house"),),
        approval_timeout_ms=60_000,
        options={"script": "- say: hello"},
        by=BY,
    ),
    "agent.attached": agent.AgentAttached(run=RUN, process="a-1", attempt=2, reason="the sandbox was lost"),
    "agent.thinking": agent.AgentThinking(run=RUN, text="hm", partial=True, message="m-1", offset=7),
    "agent.message": agent.AgentMessage(
        run=RUN, text="done", partial=True, message="m-1", offset=7, parent="call-0", truncated=True
    ),
    "agent.tool_use": agent.AgentToolUse(
        run=RUN, call="call-1", tool="run", input={"argv": ["ls"]}, parent="call-0", truncated=True
    ),
    "agent.tool_result": agent.AgentToolResult(
        run=RUN, call="call-1", ok=True, output="a\n", truncated=True, duration_ms=2.5
    ),
    "agent.approval_requested": agent.AgentApprovalRequested(
        run=RUN,
        approval="ask-1",
        tool="run",
        input={"argv": ["rm"]},
        expires_ms=60_000,
        call="call-1",
        reason="it leaves the house",
        truncated=True,
    ),
    "agent.approved": agent.AgentApproved(run=RUN, approval="ask-1", by="ada", reason="fine"),
    "agent.rejected": agent.AgentRejected(
        run=RUN, approval="ask-1", by="ada", reason="no", expired=True, tool="run", call="call-1"
    ),
    "agent.interrupted": agent.AgentInterrupted(run=RUN, reason="asked", order="c-1"),
    "agent.paused": agent.AgentPaused(run=RUN, reason="lunch", order="c-1"),
    "agent.resumed": agent.AgentResumed(run=RUN, order="c-2"),
    "agent.waiting": agent.AgentWaiting(run=RUN, reason="turn over"),
    "agent.closing": agent.AgentClosing(run=RUN),
    "agent.delivered": agent.AgentDelivered(
        run=RUN,
        order="c-1",
        kind="guidance",
        sequence=41,
        where="tool_call",
        call="call-1",
        key="a-1@512",
        process="a-1",
    ),
    "agent.transcript": agent.AgentTranscript(
        run=RUN, session="s-1", path="main.jsonl", size=3, sha256="0" * 64, data="{}\n", replaces=True
    ),
    "agent.metrics": agent.AgentMetrics(
        run=RUN,
        input_tokens=10,
        output_tokens=20,
        cache_read_tokens=30,
        cache_write_tokens=40,
        cost_usd=0.125,
        turns=2,
        tool_calls=3,
        duration_ms=1500.5,
        model="m",
    ),
    "agent.completed": agent.AgentCompleted(run=RUN, reason="finished", result="grown"),
    "agent.error": agent.AgentError(run=RUN, failure=FAILURE, final=False, detail="Killed"),
    "user.message": agent.UserMessage(run=RUN, text="hello", delivered="before a tool call", by="user"),
    "user.guidance": agent.UserGuidance(run=RUN, text="slowly", delivered="at once", by="guardian/local"),
    "user.interrupt": agent.UserInterrupt(run=RUN, reason="asked", by="user"),
    "user.approve": agent.UserApprove(run=RUN, approval="ask-1", reason="fine", by="user", remember=True),
    "user.reject": agent.UserReject(run=RUN, approval="ask-1", reason="no", by="user"),
    "user.pause": agent.UserPause(run=RUN, reason="lunch", by="user"),
    "user.resume": agent.UserResume(run=RUN, by="user"),
    "user.stop": agent.UserStop(run=RUN, reason="enough", by="user"),
    "guardian.observed": guardian.GuardianObserved(
        rule="loop",
        finding="same call",
        evidence=(40, 41),
        run=RUN,
        key="run-1/c0ffee",
        step="guidance",
        held="shadow",
        count=2,
        at=TIME,
    ),
    "guardian.intervention": guardian.GuardianIntervention(
        rule="loop",
        step="remind",
        text="stop",
        evidence=(42,),
        run=RUN,
        key="run-1/c0ffee",
        count=2,
        at=TIME,
        command="g-1",
    ),
    "guardian.escalated": guardian.GuardianEscalated(
        rule="loop",
        step="pause",
        reason="goes on",
        evidence=(43,),
        run=RUN,
        key="run-1/c0ffee",
        count=3,
        at=TIME,
        command="g-2",
    ),
    "network.allowed": network.NetworkAllowed(
        host="github.com",
        port=443,
        method="CONNECT",
        address="192.0.2.1",
        path="/",
        status=200,
        sent_bytes=1,
        received_bytes=2,
        duration_ms=3.5,
        via="connect",
        secret="api-key",
        error="the client went away",
        began_at=TIME,
    ),
    "network.denied": network.NetworkDenied(
        host="example.com", port=22, method="CONNECT", reason="host", address="192.0.2.2", count=7, via="socks"
    ),
    "network.batch": network.NetworkBatch(requests=(network.NetworkAllowed(host="github.com", port=80, method="GET"),)),
    "network.asked": network.NetworkAsked(
        approval="ask-1", host="example.com", port=443, method="CONNECT", expires_at=TIME
    ),
    "network.approved": network.NetworkApproved(
        approval="ask-1", host="example.com", port=443, reason="fine", remember=True, until=TIME, by="client"
    ),
    "network.rejected": network.NetworkRejected(
        approval="ask-1", host="example.com", port=443, reason="no", remember=True, expired=True, by="client"
    ),
    "network.attached": network.NetworkAttached(
        instance="life-1", way="entered as root", proxy="127.0.0.1:3128", routes="127.0.0.1:3129"
    ),
    "network.unattached": network.NetworkUnattached(instance="life-1", reason="the port is taken inside"),
    "audit.checkpoint": audit.AuditCheckpoint(
        first_sequence=1,
        last_sequence=9,
        hash=SHA,
        previous="0",
        key="k1",
        signature="c2ln",
        log="log-1",
        leaves="bGVhdmVz",
        missing=((3, 4),),
    ),
    "audit.rotated": audit.AuditRotated(
        log="log-1", key="k1", next="k2", signature="c2ln", proof="cHJvb2Y=", reason="yearly"
    ),
    "audit.standby": audit.AuditStandby(log="log-1", node=NODE, key="k2", proof="cHJvb2Y="),
    "audit.heir": audit.AuditHeir(log="log-1", key="k1", node=NODE, next="k2", signature="c2ln"),
    "audit.damaged": audit.AuditDamaged(
        first_sequence=5, last_sequence=7, fault="changed", detail="not what was proven", found="start"
    ),
    "node.joined": node.NodeJoined(
        node=NODE, labels={"zone": "a"}, tiers=("local",), version="1.0", identity="0123456789abcdef"
    ),
    "node.draining": node.NodeDraining(node=NODE, reason="new kernel", grace_ms=1000, by="client"),
    "node.kept": node.NodeKept(node=NODE, sandbox="sb-1", reason="no node has room"),
    "node.drained": node.NodeDrained(node=NODE, moved=2, stopped=("sb-3",)),
    "node.resumed": node.NodeResumed(node=NODE, by="client"),
    "node.lost": node.NodeLost(node=NODE, reason="no sign of life", noticed_by="node-2", by="client"),
    "node.returned": node.NodeReturned(node=NODE, gave_up=("sb-1",)),
    "dead_letter.executor": audit.DeadLetter(
        subject="cloche.cmd.node-1.sb-1.command.run",
        reason=FAILURE,
        delivered=5,
        size=2,
        data="//4=",
        encoding=Encoding.BASE64,
        truncated=True,
    ),
    "vitals.heartbeat": health.VitalsHeartbeat(status="running"),
    "vitals.metrics": health.VitalsMetrics(
        cpu_percent=12.5, memory_bytes=1, processes=2, disk_bytes=3, network_in_bytes=4, network_out_bytes=5
    ),
    "vitals.node": node.VitalsNode(
        sandboxes=1,
        max_sandboxes=100,
        memory_mb=4096,
        max_memory_mb=8192,
        cpus=2.0,
        max_cpus=4.0,
        machine_memory_mb=16000,
        machine_cpus=4,
        load_average=0.5,
        labels={"zone": "a"},
        tiers=("local",),
        version="1.0",
        draining=True,
        started_at=TIME,
        every_s=2.5,
        identity="0123456789abcdef",
    ),
}

_ORDERS: dict[str, Order] = {
    "sandbox.create": sandbox_orders.CreateSandbox(spec=msgspec.Raw(b'{"labels":{"team":"garden"}}')),
    "sandbox.start": sandbox_orders.StartSandbox(),
    "sandbox.stop": sandbox_orders.StopSandbox(grace_ms=500, reason="done", instance="life-1", failure=FAILURE),
    "sandbox.pause": sandbox_orders.PauseSandbox(),
    "sandbox.resume": sandbox_orders.ResumeSandbox(),
    "sandbox.remove": sandbox_orders.RemoveSandbox(reason="done"),
    "sandbox.snapshot": sandbox_orders.SnapshotSandbox(label="before"),
    "sandbox.recover": sandbox_orders.RecoverSandbox(
        reason="died", sequence=40, instance="life-1", lifecycle_sequence=41, lost_sequence=39
    ),
    "sandbox.fork": sandbox_orders.ForkSandbox(fork="sb-2", sequence=40, spec=msgspec.Raw(b'{"task_id":"other"}')),
    "sandbox.network": sandbox_orders.ChangeNetwork(network=msgspec.Raw(b'{"allowed_hosts":["example.com"]}')),
    "network.approve": network_orders.ApproveNetwork(approval="ask-1", reason="fine", remember=True),
    "network.reject": network_orders.RejectNetwork(approval="ask-1", reason="no", remember=True),
    "command.run": command_orders.RunCommand(
        argv=("sh", "-c", "echo ü"),
        cwd="/work",
        env={"LANG": "C.UTF-8"},
        timeout_ms=1000,
        stdin=True,
        pty=PtySize(rows=50, cols=132),
        asker=command_orders.Asker.AGENT,
    ),
    "command.input": command_orders.InputCommand(exec=EXEC, data="//4=", encoding=Encoding.BASE64, offset=7, eof=True),
    "command.signal": command_orders.SignalCommand(
        exec=EXEC, signal=2, scope=command_orders.Scope.MAIN, cancel=True, grace_ms=100, reason="enough"
    ),
    "command.resize": command_orders.ResizeCommand(exec=EXEC, rows=50, cols=132),
    "agent.start": agent_orders.StartAgent(
        runtime="claude",
        prompt="grow",
        resume="run-0",
        model="m-1",
        max_budget_usd=1.5,
        max_turns=3,
        max_tokens=1000,
        timeout_ms=60_000,
        options={"effort": "high"},
        keep_open=True,
        approvals=(TypedRule(tool="Bash", pattern="git push*", verdict=Verdict.ASK, reason="it leaves"),),
        approval_timeout_ms=60_000,
    ),
    "agent.message": agent_orders.MessageAgent(text="hello", run=RUN),
    "agent.guidance": agent_orders.GuideAgent(text="slowly", run=RUN),
    "agent.interrupt": agent_orders.InterruptAgent(reason="enough", run=RUN),
    "agent.approve": agent_orders.ApproveAgent(approval="ask-1", reason="fine", remember=True),
    "agent.reject": agent_orders.RejectAgent(approval="ask-1", reason="no"),
    "agent.pause": agent_orders.PauseAgent(reason="lunch", run=RUN),
    "agent.resume": agent_orders.ResumeAgent(run=RUN),
    "agent.stop": agent_orders.StopAgent(reason="enough", run=RUN),
    "replay.start": replay_orders.StartReplay(
        from_sequence=3,
        to_sequence=9,
        from_time=TIME,
        to_time=TIME,
        speed=2.5,
        max_idle_ms=500,
        types=("command", "agent.message"),
        loop=True,
        paused=True,
    ),
    "replay.pause": replay_orders.PauseReplay(replay="play-1", speed=2.0),
    "replay.resume": replay_orders.ResumeReplay(replay="play-1", speed=4.0),
    "replay.seek": replay_orders.SeekReplay(replay="play-1", sequence=7, time=TIME),
    "replay.step": replay_orders.StepReplay(replay="play-1", events=3),
    "replay.stop": replay_orders.StopReplay(replay="play-1"),
    "audit.rotate": audit_orders.RotateAuditKey(reason="yearly"),
    "node.drain": node_orders.DrainNode(reason="new kernel", grace_ms=1000, cancel=True),
    "node.lose": node_orders.LoseNode(node="node-2", reason="burnt", force=True),
}


def _event(tag: str, fact: Fact) -> Event:
    return Event(
        id=f"executor.{tag}.1",
        source=f"executor/{NODE}",
        type=tag,
        time=TIME,
        sandboxid=SANDBOX,
        node=NODE,
        correlationid="command-1",
        causationid="event-1",
        data=fact,
    )


def _command(tag: str, order: Order) -> Command:
    return Command(id="command-1", source="client/ada", type=tag, time=TIME, sandboxid=SANDBOX, node=NODE, data=order)


EVENT_SAMPLES: dict[str, Event] = {tag: _event(tag, fact) for tag, fact in _FACTS.items()}
"""Also the vitals, and one dead letter."""

COMMAND_SAMPLES: dict[str, Command] = {tag: _command(tag, order) for tag, order in _ORDERS.items()}
