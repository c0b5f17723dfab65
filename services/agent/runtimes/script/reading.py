"""A script out of its text, YAML or JSON. Strict: what is wrong is named by its place, and nothing is guessed."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contracts.errors import Invalid
from services.agent.runtimes.script import yaml_text
from services.agent.runtimes.script.script import NESTED, STEPS, Repeat, Script, Step, Steps

MAX_TEXT = 256 * 1024
DEEPEST = 8
MOST_STEPS = 10_000
MOST_PLAYED = 100_000
"""With what is repeated, in one turn."""
MOST_WORDS = 500
"""About what is wrong, which may have a part of the script in it."""


class _Whole(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    steps: list[Any] | None = None
    turns: list[Any] | None = None
    otherwise: list[Any] = []
    on_message: list[Any] = []

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.turns is None):
            raise ValueError("give exactly one of `steps` (a single turn) and `turns`")


def read(text: str) -> Script:
    """Raises `Invalid`, with the step and the field."""
    loaded = _load(text)
    try:
        whole = msgspec.convert({"steps": loaded} if isinstance(loaded, list) else loaded, _Whole)
    except msgspec.ValidationError as error:
        raise Invalid(f"script: {str(error)[:MOST_WORDS]}") from error
    reader = _Reader()
    if whole.turns is None:
        turns: tuple[Steps, ...] = (reader.steps(whole.steps, "steps"),)
    else:
        turns = tuple(reader.steps(turn, f"turns[{number}]") for number, turn in enumerate(whole.turns))
    return Script(
        turns=turns,
        otherwise=reader.steps(whole.otherwise, "otherwise"),
        on_message=reader.steps(whole.on_message, "on_message"),
    )


def _load(text: str) -> Any:
    if len(text) > MAX_TEXT:
        raise Invalid(f"script: {len(text)} characters, {MAX_TEXT} at most")
    if text.lstrip()[:1] not in ("{", "["):
        return yaml_text.load(text)
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise Invalid("script: lists and objects within one another, too deep to be read") from error
    except (msgspec.DecodeError, UnicodeEncodeError):
        # YAML has such brackets too.
        return yaml_text.load(text)


class _Reader:
    def __init__(self) -> None:
        self._found = 0

    def steps(self, raw: Any, where: str, depth: int = 0) -> Steps:
        if not isinstance(raw, list | tuple):
            raise Invalid(f"script: {where}: a list of steps is wanted, not {type(raw).__name__}")
        if depth > DEEPEST:
            raise Invalid(f"script: {where}: steps within steps, {DEEPEST} deep at most")
        found = tuple(self._step(each, f"{where}[{number}]", depth) for number, each in enumerate(raw))
        if _played(found) > MOST_PLAYED:
            raise Invalid(f"script: {where}: more than {MOST_PLAYED} steps with all that is repeated")
        return found

    def _step(self, raw: Any, where: str, depth: int) -> Step:
        self._found += 1
        if self._found > MOST_STEPS:
            raise Invalid(f"script: {where}: more than {MOST_STEPS} steps")
        verb = _verb(raw, where)
        try:
            step = msgspec.convert(raw, STEPS[verb])
        except msgspec.ValidationError as error:
            raise Invalid(f"script: {where} ({verb}): {str(error)[:MOST_WORDS]}") from error
        nested = {name: getattr(step, name) for name in NESTED if hasattr(step, name)}
        read = {name: self.steps(each, f"{where}.{name}", depth + 1) for name, each in nested.items()}
        return replace(step, **read)


def _verb(raw: Any, where: str) -> str:
    if not isinstance(raw, dict):
        raise Invalid(f"script: {where}: a step is a verb with what it needs, as in `say: hello`")
    verbs = [verb for verb in STEPS if verb in raw]
    if len(verbs) == 1:
        return verbs[0]
    found = " and ".join(verbs) or ", ".join(str(key)[:40] for key in list(raw)[:3]) or "nothing"
    raise Invalid(f"script: {where}: one of {', '.join(STEPS)} is wanted, not {found}")


def _played(steps: Steps) -> int:
    return sum((step.repeat if isinstance(step, Repeat) else 1) * max(1, _inner(step)) for step in steps)


def _inner(step: Step) -> int:
    return sum(_played(getattr(step, name, ())) for name in NESTED)
