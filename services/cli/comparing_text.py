"""Two runs side by side, for a person. What comes from sandboxes is escaped here."""

from collections.abc import Iterable, Sequence

from rich.text import Text

from contracts.comparing import Both, Divergence, FieldCompared, FilesCompared, StepsCompared
from contracts.steps import Spent, Step
from infra.words.escaping import printable
from services.cli.agent_phrases import money
from services.cli.comparing_reading import Comparison, Side
from services.cli.measures import counted, duration

SUBJECT = 160
LISTED = 8
ENDING = ("command", "tool", "asked")
"""Steps that have an outcome."""
PATHS = 20
A, B = "cyan", "magenta"
KINDS = {
    "command": "commands", "tool": "tool calls", "said": "what the agent said", "user": "what was said to it",
    "asked": "approvals", "agent": "the agent's runs", "network": "changes of the network", "health": "health",
    "guardian": "the guardian's steps",
}  # fmt: skip
_MARKS = {
    "command": "$ ", "tool": "→ ", "said": "│ ", "user": "> ", "asked": "? ", "agent": "● agent ", "health": "! ",
    "guardian": "! guardian ", "network": "■ ",
}  # fmt: skip
_WHY = {
    "other step": "they do different things",
    "other outcome": "the same step ends differently",
    "other output": "the same step has another output",
    "a ended": "A has no further step, B goes on",
    "b ended": "B has no further step, A goes on",
}


def comparison_lines(told: Comparison) -> list[Text]:
    return [
        *_sides(told),
        Text(""),
        *_parting(told.steps),
        Text(""),
        *_spent(told.spent.a, told.spent.b),
        *_steps(told.steps),
        *_files(told),
        *_fields(told.specification),
    ]


def _sides(told: Comparison) -> list[Text]:
    lines = [_side("A", A, told.a, told.steps.a_steps), _side("B", B, told.b, told.steps.b_steps)]
    if told.common is not None:
        where = f"{told.common.sandbox} at sequence {told.common.sequence}"
        lines.append(Text(f"   both come from {where}, and are compared from there on", style="dim"))
    return lines


def _side(letter: str, style: str, side: Side, steps: int) -> Text:
    left_out = f", {side.steps_left_out:,} more are not compared" if side.steps_left_out else ""
    span = f"sequences {side.first_sequence} to {side.last_sequence}" if side.last_sequence else "no events"
    name = (f"{letter}  {side.sandbox}", f"bold {style}")
    return Text.assemble(name, f"  {counted(steps, 'step')}{left_out}, {span}")


def _parting(steps: StepsCompared) -> list[Text]:
    divergence = steps.divergence
    if divergence is None:
        return [Text(f"All {steps.same:,} steps are the same.", style="bold green")]
    lines = []
    if divergence.after is None:
        lines.append(Text(f"They part at the beginning: {_WHY[divergence.why]}.", style="bold red"))
    else:
        lines.append(Text("The last step that is the same:"))
        lines.append(
            _step("   ", "dim", divergence.after.a, f"{divergence.after.a.sequence} {divergence.after.b.sequence}")
        )
        lines.append(Text(f"Then they part: {_WHY[divergence.why]}.", style="bold red"))
    return [*lines, *_two(divergence)]


def _two(divergence: Divergence) -> list[Text]:
    return [
        _step(f"  {letter}", style, step, str(step.sequence))
        if step is not None
        else Text(f"  {letter}  nothing more", style=style)
        for letter, style, step in (("A", A, divergence.a), ("B", B, divergence.b))
    ]


def _step(lead: str, style: str, step: Step, where: str) -> Text:
    return Text.assemble((f"{lead}  ", f"bold {style}"), (f"[{where}] ", "dim"), what_of(step), _outcome(step))


def what_of(step: Step) -> Text:
    first, *rest = step.what.strip().split("\n")
    more = f"  (+{len(rest)} lines)" if rest else ""
    return Text(f"{_MARKS.get(step.kind, '')}{printable(first.expandtabs(4), SUBJECT)}{more}")


def _outcome(step: Step) -> Text:
    if not step.outcome:
        return Text("  no end yet" if step.kind in ENDING else "", style="yellow")
    sizes = ", ".join(_sizes(step.output))
    bad = step.outcome not in ("exit 0", "done", "approved", "")
    return Text.assemble(
        (f"  {printable(step.outcome, SUBJECT)}", "red" if bad else "green"), (f"  {sizes}" if sizes else "", "dim")
    )


def _sizes(output: str) -> Iterable[str]:
    """`stdout:<digest>/<size>` for each stream, or `<digest>/<size>` alone."""
    for each in output.split():
        stream, colon, rest = each.rpartition(":")
        digest, _, size = rest.partition("/")
        name = f"{stream} " if colon else ""
        yield f"{name}{int(size):,} bytes ({digest[:6]})"


def _spent(a: Spent, b: Spent) -> list[Text]:
    rows = [
        ("commands", f"{a.commands:,}", f"{b.commands:,}"),
        ("  of them failed", f"{a.failed_commands:,}", f"{b.failed_commands:,}"),
        ("tool calls", f"{a.tool_calls:,}", f"{b.tool_calls:,}"),
        ("tokens", f"{a.tokens:,}", f"{b.tokens:,}"),
        ("cost", money(a.cost_usd), money(b.cost_usd)),
        ("requests", f"{a.requests:,}", f"{b.requests:,}"),
        ("  denied", f"{a.denied:,}", f"{b.denied:,}"),
        ("time", duration(a.duration_ms), duration(b.duration_ms)),
        ("events", f"{a.events:,}", f"{b.events:,}"),
    ]
    shown = [row for row in rows if row[1:] not in (("0", "0"), ("$0.0000", "$0.0000"))]
    header = Text.assemble(f"{'':<20}", (f"{'A':>14}", f"bold {A}"), (f"{'B':>14}", f"bold {B}"))
    return [
        header,
        *(Text(f"  {name:<18}{of_a:>14}{of_b:>14}", "" if of_a == of_b else "bold") for name, of_a, of_b in shown),
    ]


def _steps(steps: StepsCompared) -> list[Text]:
    lines: list[Text] = []
    for kind, name in KINDS.items():
        only_a = [each for each in steps.only_a if each.kind == kind]
        only_b = [each for each in steps.only_b if each.kind == kind]
        differing = [each for each in steps.differing if each.a.kind == kind]
        if only_a or only_b or differing:
            lines += [Text(""), Text(f"{name}:", style="bold")]
            lines += _only("only in A", A, only_a) + _only("only in B", B, only_b) + _differing(differing)
    unlisted = _unlisted(steps)
    return [*lines, Text(f"  … {unlisted:,} more differences", style="dim")] if unlisted else lines


def _unlisted(steps: StepsCompared) -> int:
    listed = len(steps.only_a) + len(steps.only_b) + len(steps.differing)
    return steps.only_a_count + steps.only_b_count + steps.differing_count - listed


def _only(words: str, style: str, steps: Sequence[Step]) -> list[Text]:
    if not steps:
        return []
    shown = [_step("   ", "", each, str(each.sequence)) for each in steps[:LISTED]]
    return [Text(f"  {words}: {len(steps):,}", style=style), *shown, *_more(len(steps))]


def _differing(pairs: Sequence[Both]) -> list[Text]:
    if not pairs:
        return []
    lines = [Text(f"  with another outcome or output: {len(pairs):,}", style="yellow")]
    for each in pairs[:LISTED]:
        where = Text(f"    [{each.a.sequence} {each.b.sequence}] ", style="dim")
        lines.append(Text.assemble(where, what_of(each.a)))
        lines.append(Text.assemble(("      A", A), _outcome(each.a), ("   B", B), _outcome(each.b)))
    return [*lines, *_more(len(pairs))]


def _more(count: int) -> list[Text]:
    return [Text(f"    … {count - LISTED:,} more", style="dim")] if count > LISTED else []


def _files(told: Comparison) -> list[Text]:
    without = [side.sandbox for side in (told.a, told.b) if not side.has_files]
    if without:
        return [Text(""), Text(f"files: nothing is on record of {' and '.join(without)}", style="yellow")]
    files = told.files
    if files.are_same:
        return [Text(""), Text(f"files: all {files.same:,} are the same", style="green")]
    return [Text(""), Text("files:", style="bold"), *_paths(files), Text(f"  the same: {files.same:,}", style="dim")]


def _paths(files: FilesCompared) -> list[Text]:
    lines: list[Text] = []
    for words, style, paths, count in (
        ("only in A", A, files.only_a, files.only_a_count),
        ("only in B", B, files.only_b, files.only_b_count),
        ("different", "yellow", files.differing, files.differing_count),
    ):
        if not count:
            continue
        lines.append(Text(f"  {words}: {count:,}", style=style))
        lines += [Text(f"    {printable(path, SUBJECT)}") for path in paths[:PATHS]]
        lines += [Text(f"    … {count - PATHS:,} more", style="dim")] if count > PATHS else []
    return lines


def _fields(fields: Sequence[FieldCompared]) -> list[Text]:
    if not fields:
        return []
    lines = [Text(""), Text("specification:", style="bold")]
    for each in fields[:PATHS]:
        of_a, of_b = (printable(str(value), 60) for value in (each.a, each.b))
        lines.append(Text.assemble(f"  {printable(each.path, SUBJECT)}  ", (of_a, A), "  ", (of_b, B)))
    return [*lines, Text(f"  … {len(fields) - PATHS} more", style="dim")] if len(fields) > PATHS else lines
