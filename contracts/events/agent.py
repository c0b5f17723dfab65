"""Facts about an agent run, and what people said to it on receipt. Written by the agent service."""

from contracts.agents import ApprovalRule
from contracts.errors import Failure
from contracts.message import Fact, JsonObject


class AgentStarted(Fact, frozen=True, kw_only=True):
    run: str
    runtime: str
    prompt: str
    model: str | None = None
    resumed: str | None = None
    max_budget_usd: float | None = None
    max_tokens: int | None = None
    """Of input and output together, what is cached left out."""
    max_turns: int | None = None
    timeout_ms: int | None = None
    """What the run may spend, as `agent.start` asked or the settings say. Absent = no such bound."""
    keep_open: bool = False
    approvals: tuple[ApprovalRule, ...] = ()
    """All that hold for it, the node's own at the end."""
    approval_timeout_ms: int | None = None
    options: JsonObject = {}
    by: str = ""
    """Who asked for it: the `source` of the order, such as `gateway/alice`."""


class AgentAttached(Fact, frozen=True, kw_only=True):
    """The run has a process, whose every byte is on record as the command `exec`."""

    run: str
    process: str
    """The command's id."""
    attempt: int
    """1 for the first; the next where the one before it was lost, and the conversation goes on in a new one."""
    reason: str = ""


class AgentThinking(Fact, frozen=True, kw_only=True):
    run: str
    text: str
    partial: bool = False
    message: str = ""
    offset: int = 0
    """As in `agent.message`."""


class AgentMessage(Fact, frozen=True, kw_only=True):
    """What the agent says. Where the runtime tells it as it comes, parts (`partial`) precede the whole."""

    run: str
    text: str
    partial: bool = False
    message: str = ""
    """The same for the parts and the whole of one message."""
    offset: int = 0
    """Of a part: how many characters of the message precede it."""
    parent: str | None = None
    """The tool call whose subagent says it."""
    truncated: bool = False


class AgentToolUse(Fact, frozen=True, kw_only=True):
    run: str
    call: str
    tool: str
    input: JsonObject = {}
    parent: str | None = None
    truncated: bool = False
    """The input was too large for an event; the whole is in the output of the run's process."""


class AgentToolResult(Fact, frozen=True, kw_only=True):
    run: str
    call: str
    ok: bool
    output: str
    truncated: bool = False
    duration_ms: float | None = None


class AgentApprovalRequested(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    tool: str
    input: JsonObject = {}
    expires_ms: int | None = None
    """After this event's time; then it is denied."""
    call: str | None = None
    reason: str = ""
    """Why it is asked: the words of the rule, or of the agent."""
    truncated: bool = False
    """The input was too large for an event: what is asked for is more than can be seen here."""


class AgentApproved(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    by: str
    reason: str = ""


class AgentRejected(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    by: str
    """Who: `user`, `guardian`, or `policy` where a rule denied it unasked."""
    reason: str = ""
    expired: bool = False
    tool: str = ""
    call: str | None = None


class AgentInterrupted(Fact, frozen=True, kw_only=True):
    """The operation that was going on has stopped, with all of its processes.

    Of a process that left its parents, its session and its environment nobody can say whose it is: that one stays for
    as long as the sandbox does.
    """

    run: str
    reason: str
    order: str | None = None
    """The id of the `agent.interrupt` that this acknowledges."""


class AgentPaused(Fact, frozen=True, kw_only=True):
    run: str
    reason: str = ""
    order: str | None = None


class AgentResumed(Fact, frozen=True, kw_only=True):
    run: str
    order: str | None = None


class AgentWaiting(Fact, frozen=True, kw_only=True):
    """Its turn is over, and it goes on with the next message."""

    run: str
    reason: str = ""


class AgentClosing(Fact, frozen=True, kw_only=True):
    """Its last turn is over: what is said from now on is not heard, and its end follows."""

    run: str


class AgentDelivered(Fact, frozen=True, kw_only=True):
    """What somebody said goes into the conversation here."""

    run: str
    order: str
    """The id of the order that brought it; the `user.*` event of that order has the words."""
    kind: str
    """message, guidance or interrupt."""
    sequence: int
    """Of that event."""
    where: str
    """prompt (begins a turn), tool_call (before the call `call`), turn (within the turn, as the runtime can)."""
    call: str | None = None
    key: str = ""
    process: str | None = None


class AgentTranscript(Fact, frozen=True, kw_only=True):
    """A piece of what the runtime itself remembers of the conversation, to go on with it elsewhere.

    The pieces of one `path`, in their order, are the whole.
    """

    run: str
    session: str
    path: str
    size: int
    sha256: str
    data: str | None = None
    """Where it is small; otherwise it is the blob of that name."""
    replaces: bool = False
    """What came before for this path is void."""


class AgentMetrics(Fact, frozen=True, kw_only=True):
    """What was spent since the last of these: the run's cost is the sum of them all. One at the end of each turn."""

    run: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0
    turns: int = 0
    tool_calls: int = 0
    duration_ms: float = 0
    """From the turn's beginning, less what was paused."""
    model: str = ""


class AgentCompleted(Fact, frozen=True, kw_only=True):
    """The run has ended: `done`, `stopped: …`, `budget: …`. A run ends once, in this or in a final `agent.error`."""

    run: str
    reason: str
    result: str = ""


class AgentError(Fact, frozen=True, kw_only=True):
    run: str
    failure: Failure
    final: bool = True
    """False = it goes on all the same."""
    detail: str = ""
    """The last words of the process, where there are any."""


class UserMessage(Fact, frozen=True, kw_only=True):
    run: str
    text: str
    delivered: str | None = None
    """Never set on receipt: `agent.delivered` says when and where."""
    by: str = ""


class UserGuidance(Fact, frozen=True, kw_only=True):
    run: str
    text: str
    delivered: str | None = None
    """Never set on receipt: `agent.delivered` says when and where."""
    by: str = ""


class UserInterrupt(Fact, frozen=True, kw_only=True):
    run: str
    reason: str
    by: str = ""


class UserPause(Fact, frozen=True, kw_only=True):
    run: str
    reason: str = ""
    by: str = ""


class UserResume(Fact, frozen=True, kw_only=True):
    run: str
    by: str = ""


class UserStop(Fact, frozen=True, kw_only=True):
    run: str
    reason: str = ""
    by: str = ""


class UserApprove(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    reason: str = ""
    by: str = ""
    remember: bool = False
    """The same tool about the same is not asked for again in this run."""


class UserReject(Fact, frozen=True, kw_only=True):
    run: str
    approval: str
    reason: str = ""
    by: str = ""
