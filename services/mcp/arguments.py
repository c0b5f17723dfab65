"""What a model may say to each tool. Everything is bounded, and what is not named here is refused.

No pattern here has a look-ahead: some of those who read these schemas know only regular languages.
"""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from contracts.files import MAX_ENTRIES, MAX_PATH, MAX_PATTERN, MAX_WRITE_CHARACTERS

NO_NUL = r"^[^\x00]*$"
ONE_LINE = r"^[^\x00\n]*$"
MAX_COMMAND = 131_072
MAX_TIMEOUT_MS = 86_400_000
DEFAULT_TIMEOUT_MS = 120_000
MAX_MATCHES = 500

File = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_PATH,
        pattern=NO_NUL,
        description="A file: relative to the workspace (`src/a.py`), or absolute as the sandbox sees it.",
    ),
]
Directory = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_PATH,
        pattern=NO_NUL,
        description="Where to look; the whole workspace unless given.",
    ),
]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one call."""


class Read(Arguments, frozen=True, kw_only=True):
    path: File
    offset: Annotated[int, Meta(ge=1, le=2**53, description="The first line wanted; the file's first is 1.")] = 1
    limit: Annotated[int, Meta(ge=1, le=20_000, description="How many lines at most.")] = 2000


class Glob(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN,
            pattern=ONE_LINE,
            description="`*` and `?` within a name, `**` over directories, `[a-z]`, `{a,b}`: `**/*.py`.",
        ),
    ]
    path: Directory = "."
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES, description="How many at most.")] = 200
    after: (
        Annotated[str, Meta(max_length=2 * MAX_PATH, description="`next` of the answer before, for what follows.")]
        | UnsetType
    ) = UNSET


class Grep(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_PATTERN,
            pattern=ONE_LINE,
            description="A regular expression in RE2's syntax: no back-references, no look-around.",
        ),
    ]
    path: Directory = "."
    files: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_PATTERN,
                pattern=ONE_LINE,
                description="Only in files like this; without `/` it is matched against the name alone: `*.py`.",
            ),
        ]
        | UnsetType
    ) = UNSET
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=20, description="Lines before and after each match.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_MATCHES, description="How many matches at most.")] = 100


class Write(Arguments, frozen=True, kw_only=True):
    path: File
    content: Annotated[str, Meta(max_length=MAX_WRITE_CHARACTERS, description="The whole of the file.")]


class Edit(Arguments, frozen=True, kw_only=True):
    path: File
    old: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_WRITE_CHARACTERS, description="The exact text, with its white space."),
    ]
    new: Annotated[str, Meta(max_length=MAX_WRITE_CHARACTERS, description="What stands there afterwards.")]
    replace_all: Annotated[bool, Meta(description="Everywhere. Otherwise `old` must be there exactly once.")] = False


class Run(Arguments, frozen=True, kw_only=True):
    command: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_COMMAND,
            pattern=NO_NUL,
            description="A command line for `/bin/sh -c`. Its standard input is empty.",
        ),
    ]
    cwd: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            pattern=NO_NUL,
            description="The directory that it starts in; relative ones are beneath the workspace, the default.",
        ),
    ] = "."
    env: Annotated[
        dict[str, Annotated[str, Meta(max_length=65_536, pattern=NO_NUL)]],
        Meta(max_length=100, description="More variables of its environment."),
    ] = {}
    timeout_ms: Annotated[
        int, Meta(ge=1, le=MAX_TIMEOUT_MS, description="It is ended after so long, with all that it started.")
    ] = DEFAULT_TIMEOUT_MS
