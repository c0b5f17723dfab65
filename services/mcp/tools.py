"""The tools, and what is said of each to whoever may use it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from mcp_types import Tool, ToolAnnotations
from msgspec import Struct

from services.mcp import answers, arguments, files, running
from services.mcp.arguments import Arguments
from services.mcp.call import Call
from services.mcp.outcome import Outcome
from services.mcp.profiles import Profile
from services.mcp.schemas import input_schema, output_schema

LOOKS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
REPLACES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True)

READ = """Read a file of the sandbox's workspace: lines of a text, or an image.

A long text comes in parts: the answer says which lines these are and the `offset` to go on with."""
GLOB = """Find files and directories of the sandbox's workspace by a pattern such as `**/*.py`.

Sorted by path; a directory's path ends in `/`. Where there are more, the answer has `next`, to be given as `after`."""
GREP = """Find lines by a regular expression (RE2) in one file, or in all files beneath a directory.

Each line is `path:line:text`; lines of context have `-` instead of `:`. Binary files are left out."""
WRITE = """Write a whole file of the sandbox's workspace, with the directories on its way.

What was there is replaced, at once: nobody sees it half. To change a part of a file, use `edit`."""
EDIT = """Replace an exact text in a file of the sandbox's workspace.

`old` must be there exactly once, unless `replace_all` is true: take enough of its surroundings."""
RUN = """Run a command line in the sandbox by `/bin/sh -c`, and wait for its end.

A command that fails is an answer, with its exit code. It has 120 s unless `timeout_ms` says otherwise; then it is ended
with all that it started, and `timed_out` is true. Of long output the beginning and the end are shown."""

Work = Callable[[Call, Any], Awaitable[Outcome]]


class Offer(NamedTuple):
    title: str
    words: str
    arguments: type[Arguments]
    answer: type[Struct]
    work: Work
    annotations: ToolAnnotations


EXPLORE: dict[str, Offer] = {
    "read": Offer("Read a file", READ, arguments.Read, answers.ReadAnswer, files.read, LOOKS),
    "glob": Offer("Find files", GLOB, arguments.Glob, answers.GlobAnswer, files.glob, LOOKS),
    "grep": Offer("Search in files", GREP, arguments.Grep, answers.GrepAnswer, files.grep, LOOKS),
}
CODE: dict[str, Offer] = {
    "write": Offer("Write a file", WRITE, arguments.Write, answers.WriteAnswer, files.write, REPLACES),
    "edit": Offer("Edit a file", EDIT, arguments.Edit, answers.EditAnswer, files.edit, CHANGES),
    "run": Offer("Run a command", RUN, arguments.Run, answers.RunAnswer, running.run, RUNS),
}


def offers_of(profile: Profile) -> dict[str, Offer]:
    return EXPLORE | CODE if profile == Profile.CODE else dict(EXPLORE)


def described(name: str, offer: Offer) -> Tool:
    return Tool(
        name=name,
        title=offer.title,
        description=offer.words,
        input_schema=input_schema(offer.arguments),
        output_schema=output_schema(offer.answer),
        annotations=offer.annotations,
    )
