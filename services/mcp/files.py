"""The tools for files. Each call is `tool.invoked` and `tool.returned` on the log."""

from functools import partial

from msgspec import UNSET

from contracts import subjects
from contracts.files import ContentKind, FileContent, FileListing, GlobFiles
from infra.client import Sandbox
from infra.client.asking import ask
from infra.client.files import Files
from infra.client.spelled_path import spelled
from infra.ids import new_id
from services.mcp import arguments, texts
from services.mcp.answers import edit_answer, glob_answer, grep_answer, read_answer, write_answer
from services.mcp.call import Call
from services.mcp.outcome import Image, Outcome
from services.mcp.patience import once, patiently

READ_BYTES = 64 * 1024
"""Of a text in one answer: what a model can use. Lines after that have an offset."""
GREP_TIMEOUT_MS = 20_000
LONG_S = 110.0
"""For a search, which may have to wait for others."""


async def read(call: Call, wanted: arguments.Read) -> Outcome:
    files = _files(call)
    found = await patiently(
        call.bus, lambda: files.read(wanted.path, offset=wanted.offset, limit=wanted.limit, max_bytes=READ_BYTES)
    )
    answer = read_answer(found)
    return Outcome(answer, texts.read_text(answer), _image(found))


def _image(found: FileContent) -> Image | None:
    return Image(found.content, found.mime) if found.kind == ContentKind.IMAGE else None


async def glob(call: Call, wanted: arguments.Glob) -> Outcome:
    at = spelled(wanted.path)
    request = GlobFiles(
        pattern=wanted.pattern,
        path=at.text,
        path_bytes=at.encoded,
        limit=wanted.limit,
        after=None if wanted.after is UNSET else wanted.after,
        asked_by=new_id("m"),
    )
    subject = subjects.rpc("files", call.sandbox.state.node, call.sandbox.id, "glob")
    asking = partial(ask, call.bus, subject, request, FileListing, timeout=LONG_S)
    answer = glob_answer(await patiently(call.bus, asking, attempt_s=LONG_S))
    return Outcome(answer, texts.glob_text(answer))


async def grep(call: Call, wanted: arguments.Grep) -> Outcome:
    searching = partial(
        _files(call).grep,
        wanted.pattern,
        wanted.path,
        ignore_case=wanted.ignore_case,
        files=None if wanted.files is UNSET else wanted.files,
        context=wanted.context,
        limit=wanted.limit,
        timeout_ms=GREP_TIMEOUT_MS,
    )
    answer = grep_answer(await patiently(call.bus, searching, attempt_s=LONG_S))
    return Outcome(answer, texts.grep_text(answer))


async def write(call: Call, wanted: arguments.Write) -> Outcome:
    files = _files(call)
    answer = write_answer(await once(call.bus, lambda: files.write(wanted.path, wanted.content)))
    return Outcome(answer, texts.write_text(answer))


async def edit(call: Call, wanted: arguments.Edit) -> Outcome:
    editing = partial(_files(call).edit, wanted.path, wanted.old, wanted.new, replace_all=wanted.replace_all)
    answer = edit_answer(await once(call.bus, editing))
    return Outcome(answer, texts.edit_text(answer))


def _files(call: Call) -> Files:
    sandbox: Sandbox = call.sandbox
    return Files(call.bus, node=sandbox.state.node, sandbox=sandbox.id, asked_by=new_id("m"))
