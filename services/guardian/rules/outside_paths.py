"""Writing where the task has no business."""

import functools
import posixpath
from collections.abc import Iterator, Sequence

from msgspec import Struct

from contracts.events import file
from contracts.events.agent import AgentToolUse
from contracts.events.sandbox import SandboxCreated, SandboxCreating
from contracts.events.tool import ToolInvoked
from contracts.guardian import Finding, OutsidePaths
from contracts.message import JsonObject
from services.guardian.calls import brief, fingerprint
from services.guardian.rules.rule import Outcome, Rule, shown
from services.guardian.seen import Seen

INPUTS = ("path", "file_path", "notebook_path", "to", "destination")
SHOWN_PATHS = 3


class State(Struct, frozen=True):
    workspace: str = "/workspace"
    write: tuple[str, ...] = (".",)


def step(settings: OutsidePaths, state: State, event: Seen) -> Outcome:
    match event.fact:
        case SandboxCreating(spec=spec):
            return Outcome(State(spec.workspace.path, spec.permissions.write))
        case SandboxCreated(workspace=workspace):
            return Outcome(State(workspace, state.write))
    outside = [path for path in _written(settings, event.fact) if not _is_allowed(settings, state, path)]
    return Outcome(state, (_finding(state, outside, event),) if outside else ())


def _written(settings: OutsidePaths, fact: object) -> Iterator[str]:
    """Paths that were written, or that somebody asks to write."""
    match fact:
        case file.FileCreated() | file.FileModified() | file.FileDeleted():
            yield fact.path
        case file.FileMoved():
            yield from (fact.path, fact.moved_from)
        case file.FileBatch():
            for change in fact.changes:
                yield change.path
                if change.moved_from is not None:
                    yield change.moved_from
        case AgentToolUse() if fact.tool.lower() in settings.tools:
            yield from _named(fact.input)
        case ToolInvoked() if fact.tool.lower() in settings.tools:
            yield from _named(fact.arguments)


def _named(arguments: JsonObject) -> Iterator[str]:
    for name in INPUTS:
        if isinstance(path := arguments.get(name), str) and path:
            yield path


def _is_allowed(settings: OutsidePaths, state: State, path: str) -> bool:
    """By its name alone: where a symbolic link leads is not to be seen from here."""
    whole = _whole(state.workspace, path)
    task = state.write if settings.paths is None else settings.paths
    if _is_beneath(whole, _tops(state.workspace, task)) or _is_beneath(whole, _tops(state.workspace, settings.besides)):
        return True
    is_within = _is_beneath(whole, _tops(state.workspace, (".",)))
    return is_within and any(name in settings.names for name in whole.split("/"))


def _whole(workspace: str, path: str) -> str:
    joined = path if path.startswith("/") else f"{workspace}/{path}"
    return "/" + posixpath.normpath(joined).lstrip("/") if "/." in joined or "//" in joined else joined


def _is_beneath(whole: str, tops: tuple[str, ...]) -> bool:
    return any(whole.startswith(top) or whole == top[:-1] for top in tops)


@functools.lru_cache(maxsize=256)
def _tops(workspace: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_whole(workspace, path).rstrip("/") + "/" for path in paths)


def _top(state: State, whole: str) -> str:
    """The topmost directory that it is in: who fills a tree elsewhere is told of once, not once for each leaf."""
    beneath = whole.removeprefix(f"{state.workspace.rstrip('/')}/")
    return "/".join(beneath.split("/")[: 2 if beneath == whole else 1])


def _finding(state: State, outside: Sequence[str], event: Seen) -> Finding:
    first = _whole(state.workspace, outside[0])
    run = brief(event.fact.run) if isinstance(event.fact, AgentToolUse) else None
    more = f" and {len(outside) - SHOWN_PATHS} more" if len(outside) > SHOWN_PATHS else ""
    return Finding(
        rule=RULE.name,
        key=f"{run or 'files'}#{fingerprint(_top(state, first))}",
        text=f"outside the task's paths: {', '.join(shown(path) for path in outside[:SHOWN_PATHS])}{more}",
        evidence=(event.sequence,),
        run=run,
    )


RULE = Rule(
    name="outside_paths",
    about="a file is changed, or a tool is asked to write, outside `paths` (or the sandbox's own `permissions.write`)",
    reads=frozenset(
        {
            "sandbox.creating", "sandbox.created", "file.created", "file.modified", "file.deleted", "file.moved",
            "file.batch", "agent.tool_use", "tool.invoked",
        }
    ),
    settings=OutsidePaths,
    begin=State,
    step=step,
)  # fmt: skip
