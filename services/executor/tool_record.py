"""What the log says of a file operation: what was asked for and what came of it, in brief. Pure."""

import msgspec
from msgspec import Struct

from contracts.files import (
    FileContent,
    FileListing,
    FileRequest,
    GrepResult,
    WriteFile,
)
from contracts.message import JsonObject

SHOWN = 200
"""Characters of a text in the arguments."""
TEXTS = ("old", "new")
ASKERS = ("asked_by", "by")
"""Fields of the event itself."""


def arguments_of(request: FileRequest) -> JsonObject:
    """Never the content of a file; longer texts only as they begin."""
    arguments: JsonObject = {name: value for name, value in msgspec.to_builtins(request).items() if value is not None}
    for name in ASKERS:
        arguments.pop(name, None)
    if isinstance(request, WriteFile):
        arguments["characters"] = len(arguments.pop("content"))
    for name in TEXTS:
        if len(text := arguments.get(name, "")) > SHOWN:
            arguments[name] = text[:SHOWN]
            arguments[f"{name}_characters"] = len(text)
    return arguments


def summary_of(answer: Struct) -> JsonObject:
    """Counts and sizes."""
    match answer:
        case FileContent():
            wanted = ("kind", "bytes", "mime", "total_lines", "first_line", "lines", "truncated")
            return {name: value for name in wanted if (value := getattr(answer, name)) is not None}
        case FileListing():
            return {"entries": len(answer.entries), "truncated": answer.truncated}
        case GrepResult():
            counts = {name: getattr(answer, name) for name in ("files_searched", "files_matched", "truncated")}
            return {"matches": len(answer.matches), **counts}
    summary: JsonObject = msgspec.to_builtins(answer)
    return summary
