"""What the guardian looks for, and what it does about it. Every rule has settings of its own."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from contracts.ids import END, Name

Pattern = Annotated[str, Meta(min_length=1, max_length=1000)]
PathInside = Annotated[str, Meta(pattern=r"^[^\x00]{1,4096}" + END)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Wait = Annotated[float, Meta(gt=0, le=86_400)]
Share = Annotated[float, Meta(gt=0, le=1)]


class Step(StrEnum):
    """From the mildest on. Each stands for everything that is done about a finding."""

    OBSERVE = "observe"
    GUIDANCE = "guidance"
    INTERRUPT = "interrupt"
    PAUSE = "pause"
    STOP = "stop"


STEPS: tuple[Step, ...] = tuple(Step)


def milder(one: Step, other: Step) -> Step:
    return min(one, other, key=STEPS.index)


def further(one: Step, other: Step) -> Step:
    return max(one, other, key=STEPS.index)


class Mode(StrEnum):
    OFF = "off"
    SHADOW = "shadow"
    """Findings are told with the step that would have been taken, and nothing is done."""
    LIVE = "live"


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every rule's settings have."""

    enabled: bool = True
    step: Step = Step.OBSERVE
    """What is done when something is found for the first time."""
    up_to: Step | None = None
    """The furthest step, one further each time that the same is found again. Absent = `step`."""
    cooldown_s: Seconds = 600
    """The same finding is not told again for so long; while it is only observed, each time twice as long."""

    def __post_init__(self) -> None:
        if self.up_to is not None and STEPS.index(self.up_to) < STEPS.index(self.step):
            raise ValueError(f"`up_to` ({self.up_to}) is milder than `step` ({self.step})")

    @property
    def furthest(self) -> Step:
        return self.up_to or self.step


class RepeatedCall(Policy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    times: Annotated[int, Meta(ge=2, le=100)] = 5
    within_s: Annotated[float, Meta(ge=1, le=86_400)] = 300
    """Slower repetition is polling."""
    waits_s: Wait = 5
    """A call that takes so long by itself is somebody waiting (`sleep 30; look`), and is not counted."""


class AlternatingLoop(Policy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    longest: Annotated[int, Meta(ge=2, le=8)] = 3
    """Calls in one round: 2 finds A B A B, 3 also A B C A B C."""
    times: Annotated[int, Meta(ge=2, le=20)] = 4
    """Rounds."""
    within_s: Annotated[float, Meta(ge=1, le=86_400)] = 300
    """Slower rounds are polling."""
    waits_s: Wait = 5
    """A round with a call that takes so long by itself is somebody waiting."""


class ErrorStorm(Policy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    last: Annotated[int, Meta(ge=3, le=200)] = 20
    """Results that are looked at."""
    share: Share = 0.8
    """Of them that are errors."""
    alike: Share = 0.5
    """Of the errors that have their like among them. Many different ones are somebody at work."""
    within_s: Annotated[float, Meta(ge=1, le=86_400)] = 900
    """Errors that come more slowly are somebody waiting for what is not there yet."""


class NoProgress(Policy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after_s: Annotated[float, Meta(ge=1, le=86_400)] = 900


class Budget(Policy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For runs that were started without a budget of their own. Absent = none."""

    max_usd: Annotated[float, Meta(gt=0)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    max_s: Annotated[float, Meta(ge=1, le=30 * 86_400)] | None = None
    """By the clock, from the start of the run."""
    near: Share = 0.8


_SHELL = r"(?:ba|z|da|k|a)?sh"
_AT_START = (
    r"(?:^|[;&|({`\n]|[;\n]\s*(?:then|do|else)\s|\b(?:sudo|xargs|exec|env|nohup|timeout\s+\S+)\s(?:\s*-\S+\s)*|"
    r"\b" + _SHELL + r"\s+(?:-\S+\s+)*-\w*c\s+[\"']?)\s*"
)
"""Where a command begins."""
_ELSEWHERE = r"(?:[2-9][0-9]{0,2}|1|1[013-9][0-9]?|12|12[0-689])(?:\.[0-9]+){3}|[\w-]+(?:\.[\w-]+)*\.[a-z]\w*"
"""A host that is not this one: waiting for a port of one's own is nobody's harm."""

DANGEROUS: dict[str, str] = {
    "removes the root or a home": _AT_START
    + r"rm\s+(?:-\S+\s+)*-(?:\w*[rR]\w*|-recursive)\s+(?:[^\s;&|]+\s+)*"
    + r"[\"']?(?:/|/\*|~/?|\$\{?HOME\}?/?|\.\./?)[\"']?\s*(?:$|[;&|)\s\"'])",
    "makes a file system": _AT_START + r"mkfs(?:\.\w+)?\s",
    "writes to a device": r"\bdd\s[^\n]*\bof=/dev/(?:sd|hd|vd|nvme|mmcblk|mem|kmem)|>\s*/dev/(?:sd|hd|vd|nvme|mmcblk)",
    "fork bomb": r":\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}",
    "opens everything to everybody": _AT_START
    + r"chmod\s+(?:-\S+\s+)*-\w*R\w*\s+(?:-\S+\s+)*0?777\s+"
    + r"/(?:\*|(?:bin|boot|etc|home|lib|opt|root|sbin|usr|var)\b\S*)?\s*(?:$|[;&|)\s\"'])",
    "runs what it downloads": r"\b(?:curl|wget)\s[^\n|]*\|\s*(?:sudo\s+)?(?:env\s+)?" + _SHELL + r"\b",
    "runs what it decodes": r"\bbase64\s+(?:-d|-D|--decode)\b[^\n|]*\|\s*(?:sudo\s+)?" + _SHELL + r"\b",
    "opens a shell to the outside": r"\b"
    + _SHELL
    + r"\s+-i\b[^\n]*/dev/(?:tcp|udp)/|/dev/(?:tcp|udp)/(?:"
    + _ELSEWHERE
    + r")/|\b(?:nc|ncat|netcat)(?:\s[^\n;|&]*)?\s(?:-\w*e|--exec)\s",
    "reads keys or passwords": r"/etc/shadow\b|\.ssh/id_\w+(?:$|[^\w.])|\.aws/credentials\b|\.git-credentials\b|"
    r"/proc/[0-9]+/environ\b",
    "asks for the cloud's credentials": r"169\.254\.169\.254|metadata\.google\.internal",
    "reaches for the engine": r"\bdocker\.sock\b|\bcontainerd\.sock\b|" + _AT_START + r"nsenter\s",
    "rewrites what others have": _AT_START + r"git\s[^\n;|&]*\bpush\b[^\n;|&]*\s(?:--force|--mirror|-f)(?:\s|$)",
    "turns the machine off": _AT_START + r"(?:shutdown|reboot|poweroff|halt)(?:[\s;&|\"']|$)",
    "mines coins": r"\b(?:xmrig|minerd|cpuminer)\b|\bstratum\+tcp://",
}
"""By what each means. Tripwires, not walls: a command can be written in more ways than any list knows."""


class DangerousCommand(Policy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cooldown_s: Seconds = 10
    patterns: Annotated[dict[Name, Pattern], Meta(max_length=100)] = msgspec.field(
        default_factory=lambda: dict(DANGEROUS)
    )
    """RE2 syntax, searched for in the command as one line, whatever its case."""
    also: Annotated[dict[Name, Pattern], Meta(max_length=100)] = {}
    """Beside `patterns`."""


class OutsidePaths(Policy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    paths: Annotated[tuple[PathInside, ...], Meta(max_length=200)] | None = None
    """The task's: relative to the workspace, or absolute. Absent = `permissions.write` of the sandbox."""
    besides: Annotated[tuple[PathInside, ...], Meta(max_length=200)] = ("/tmp", "/dev")  # noqa: S108
    names: Annotated[tuple[Name, ...], Meta(max_length=200)] = (
        ".git", "node_modules", ".venv", "venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache",
        "target", "build", "dist",
    )  # fmt: skip
    """Directories that tools write to by themselves, wherever they are in the workspace."""
    tools: Annotated[tuple[Name, ...], Meta(max_length=200)] = (
        "write", "edit", "multiedit", "notebookedit", "create", "str_replace", "str_replace_editor", "apply_patch",
        "mkdir", "remove", "move", "upload", "write_file", "edit_file", "delete_file",
    )  # fmt: skip
    """That write, whatever their case."""


class Guardian(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule's name is the name of its field."""

    mode: Mode = Mode.LIVE
    repeated_call: RepeatedCall = RepeatedCall()
    alternating_loop: AlternatingLoop = AlternatingLoop()
    error_storm: ErrorStorm = ErrorStorm()
    no_progress: NoProgress = NoProgress()
    budget: Budget = Budget()
    dangerous_command: DangerousCommand = DangerousCommand()
    outside_paths: OutsidePaths = OutsidePaths()


class Finding(Struct, frozen=True, kw_only=True):
    rule: str
    key: str
    """The same for what is the same trouble going on; behind a `#`, the shape that it has."""
    text: str
    evidence: tuple[int, ...]
    """Sequence numbers in the log, the newest last."""
    run: str | None = None
    at_most: Step = Step.STOP
    """However far the settings would go."""
