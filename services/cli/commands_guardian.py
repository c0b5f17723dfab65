"""`guardian test`, `guardian rules`: what the guardian would find in the past, and what it looks for."""

import asyncio
import datetime
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from contracts import subjects
from contracts.errors import Invalid
from contracts.guardian import Guardian, Step
from infra import clock
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.configuration import load
from infra.words.escaping import printable
from services.cli import show
from services.cli.progress_line import ProgressLine
from services.cli.session import connected
from services.cli.values import specification
from services.cli.words import say
from services.guardian.engine import bind, filters, policy_of
from services.guardian.history import History, Judged
from services.guardian.moments import milliseconds, moment
from services.guardian.past import past
from services.guardian.rules.rule_set import Bound
from services.guardian.rules.table import RULES

Set = Annotated[
    list[str] | None, typer.Option("--set", help="Another setting, such as repeated_call.times=3. Repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


class Span(NamedTuple):
    first: int
    last: int
    """Sequences of the log."""
    begin_ms: int
    end_ms: int


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Rules that watch what agents do: loops, errors, silence, budgets, dangers.",
        no_args_is_help=True,
        suggest_commands=False,
    )
    group.command("test")(back_test)
    group.command("rules")(rules)
    app.add_typer(group, name="guardian")


def back_test(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RULES]...", help="All unless given.")] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="SEQ|TIME", help="Findings from here on.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="SEQ|TIME", help="And up to here; now unless given.")
    ] = None,
    sandbox_id: Annotated[str | None, typer.Option("--sandbox", metavar="SANDBOX", help="All unless given.")] = None,
    changes: Set = None,
    json: Json = False,
) -> None:
    """What the rules would have found in the past, and when: the same that they find live. Nothing is done or told.

    A time is as in 2026-05-01T09:00 (your own zone, unless it names one).
    """
    bound = bind(_settings(changes or []), names or [])

    async def go() -> History:
        async with connected() as cloche:
            begin = (await cloche.sandbox(sandbox_id)).state.first_sequence if sandbox_id else 1
            bus = cloche.bus_of(sandbox_id) if sandbox_id else cloche.bus
            span = await _span(bus, start, to)
            history = History(bound, since=span.first, since_ms=span.begin_ms)
            with ProgressLine("judging the log") as line:
                async for judged in _judge(bus, history, span, begin, sandbox_id or "*", line):
                    counts[judged.decision.finding.rule] += 1
                    line.clear()
                    _tell(judged, json=json)
            return history

    counts: Counter[str] = Counter()
    history = asyncio.run(go())
    if not json:
        _sum_up(history, counts, bound)


def rules(changes: Set = None, json: Json = False) -> None:
    """Every rule, what it finds, and its settings as they are now."""
    settings = _settings(changes or [])
    for name, rule in RULES.items():
        policy = msgspec.to_builtins(policy_of(settings, name))
        if json:
            show.json_line({"rule": name, "about": rule.about, "settings": policy})
        else:
            print(f"{name}: {rule.about}")
            for key, value in policy.items():
                print(f"    {key} = {_value(value)}")
    if not json:
        print(f"mode = {settings.mode}: settings are in [guardian] of cloche.toml, and a rule's in [guardian.<rule>]")


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"\n        {name!r}: {each}" for name, each in value.items()) or "{}"
    return msgspec.json.encode(value).decode()


def _settings(changes: list[str]) -> Guardian:
    laid = msgspec.to_builtins(load().guardian)
    for name, value in specification(changes).items():
        laid[name] = {**laid[name], **value} if isinstance(value, dict) and isinstance(laid.get(name), dict) else value
    try:
        return msgspec.convert(laid, Guardian)
    except msgspec.ValidationError as error:
        raise Invalid(f"--set: {error}") from error


async def _span(bus: Bus, start: str | None, to: str | None) -> Span:
    head = (await reader.bounds(bus)).last
    now = clock.now()
    first, begin = (1, None) if start is None else await _begin(bus, start, head)
    last, end = (head, None) if to is None else await _end(bus, to, head)
    return Span(first, last, 0 if begin is None else milliseconds(begin), milliseconds(end or now))


async def _begin(bus: Bus, text: str, head: int) -> tuple[int, datetime.datetime | None]:
    """The first sequence that counts, and the first moment."""
    if not text.isdecimal():
        when = _time(text, "--from")
        return await _first_after(bus, when, head), when
    entry = await reader.first(bus, subjects.LOG, start=min(int(text), head + 1))
    return int(text), clock.now() if entry is None else entry.time


async def _end(bus: Bus, text: str, head: int) -> tuple[int, datetime.datetime | None]:
    """The last sequence that counts, and the last moment; now where there is no such sequence yet."""
    if not text.isdecimal():
        when = _time(text, "--to")
        return await _first_after(bus, when, head) - 1, when
    last = min(int(text), head)
    entry = await page.fetch_one(bus, last) if last == int(text) else None
    return last, entry.time if entry is not None else None


async def _first_after(bus: Bus, when: datetime.datetime, head: int) -> int:
    found = await page.fetch(bus, subjects.LOG, 1, limit=1, since=when)
    return found.entries[0].seq if found.entries else head + 1


def _time(text: str, option: str) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise Invalid(f"{option} {text!r} is neither a sequence nor a time such as 2026-05-01T09:00") from None


async def _judge(
    bus: Bus, history: History, span: Span, begin: int, sandbox: str, line: ProgressLine
) -> AsyncIterator[Judged]:
    async for entry in past(bus, filters(history.wanted, sandbox), begin, span.last):
        for judged in history.feed(entry.seq, milliseconds(entry.time), entry.data):
            yield judged
        line.at(entry.seq, span.last)
    for judged in history.end(span.end_ms):
        yield judged


def _tell(judged: Judged, *, json: bool) -> None:
    decision, finding = judged.decision, judged.decision.finding
    when = moment(decision.at_ms)
    if json:
        told = {"sandbox": judged.sandbox, "at": when, "step": decision.step, "held": decision.held}
        show.json_line(told | {"count": decision.count, "finding": finding})
        return
    held = f" ({decision.held})" if decision.held else ""
    step = "" if decision.step is Step.OBSERVE else f" → {decision.step}{held}"
    print(f"{when.astimezone():%Y-%m-%d %H:%M:%S}  {judged.sandbox}  {finding.rule}{step}: {finding.text}")
    evidence = ", ".join(str(sequence) for sequence in finding.evidence)
    print(f"    evidence: {evidence}" + (f"  run: {printable(finding.run)}" if finding.run else ""))


def _sum_up(history: History, counts: Counter[str], bound: tuple[Bound, ...]) -> None:
    total = sum(counts.values())
    each = ", ".join(f"{counts[each.rule.name]} {each.rule.name}" for each in bound if counts[each.rule.name])
    found = f"{total} finding{'s' if total != 1 else ''}" if total else "nothing found"
    rules = "every rule" if len(bound) == len(RULES) else ", ".join(each.rule.name for each in bound)
    say(f"{found}{f' ({each})' if each else ''} in {history.events:,} events, by {rules}")
    if history.unreadable:
        say(f"{history.unreadable} events could not be read")
