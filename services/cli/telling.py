"""How a story looks to a person. Everything in it may have come out of a sandbox, so everything is escaped."""

import datetime

from rich.console import Console
from rich.text import Text

from infra.words.escaping import last_lines, printable
from services.cli.columns import width_of_output
from services.cli.story import Advice, Sentence, Story

INDENT = 10
OUTPUT_LINES = 10
BAR = "| "
LONGEST = 2000
WIDEST = 120
"""Longer lines are hard to read, however wide the terminal."""


def print_story(story: Story) -> None:
    console = Console(highlight=False, width=min(max(width_of_output(), 40), WIDEST))
    _print_wrapped(console, _headline(story))
    console.print()
    if story.earlier:
        console.print(Text(f"… {story.earlier} more events: `cloche why {story.sandbox} --last N`", style="dim"))
    for sentence in story.sentences:
        _print_sentence(console, sentence)
    if story.next:
        console.print()
        console.print(Text("What to do:", style="bold"))
    for each in story.next:
        _print_advice(console, each)
    if story.status is not None:
        first = min(sequence for each in (story.headline, *story.sentences) for sequence in each.sequences)
        footer = f"[n] are sequences of the log: `cloche events {story.sandbox} --from {first}` shows them"
        console.print(Text(f"\n{footer}", style="dim"))


def _headline(story: Story) -> Text:
    line = Text(f"{story.sandbox} {printable(story.headline.text, LONGEST)}", style="bold")
    return line.append(f"  {_numbers(story.headline)}", style="dim not bold")


def _print_sentence(console: Console, sentence: Sentence) -> None:
    text = Text(printable(sentence.text, LONGEST)).append(f"  {_numbers(sentence)}", style="dim")
    _print_wrapped(console, text, lead=_time(sentence.at), indent=INDENT)
    for line in last_lines(sentence.last_output, OUTPUT_LINES, console.width - INDENT - len(BAR) - 1):
        console.print(Text(f"{' ' * INDENT}{BAR}{line}"), soft_wrap=True)


def _print_wrapped(console: Console, text: Text, *, lead: str = "", indent: int = 0) -> None:
    for line in text.wrap(console, console.width - indent):
        line.rstrip()
        console.print(Text(f"{lead:<{indent}}", style="dim") + line, soft_wrap=True)
        lead = ""


def _print_advice(console: Console, advice: Advice) -> None:
    # Whole, on a line of its own: it is there to be copied.
    console.print(Text(f"  {printable(advice.do)}"), soft_wrap=True)
    console.print(Text(f"      {printable(advice.why)}", style="dim"), soft_wrap=True)


def _numbers(sentence: Sentence) -> str:
    """`[17-19,21]`: no space, so that it is never broken."""
    runs: list[list[int]] = []
    for sequence in sentence.sequences:
        if runs and sequence == runs[-1][-1] + 1:
            runs[-1].append(sequence)
        else:
            runs.append([sequence])
    return f"[{','.join(str(run[0]) if len(run) == 1 else f'{run[0]}-{run[-1]}' for run in runs)}]"


def _time(at: datetime.datetime) -> str:
    """Of today by the clock, else by its date."""
    local = at.astimezone()
    today = datetime.datetime.now(datetime.UTC).astimezone().date()
    return f"{local:%H:%M:%S}" if local.date() == today else f"{local:%d %b}"
