"""What was kept of a conversation, and is put in place for one that goes on."""

import asyncio
import json
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from contracts.errors import AgentFailed
from services.agent.digest import digest
from services.agent.runtimes.claude.command_line import CONFIG_DIR, project_key
from services.agent.runtimes.claude.frames import Frame, amount
from services.agent.runtimes.claude.mirror import PATH, weight
from services.agent.stage import Stage
from services.agent.transcripts import Document

_PUT = 'umask 077 && mkdir -p "${1%/*}" && cat >"$1"'
METADATA = "agent_metadata"
COST = b'"cost-state"'


class Session(NamedTuple):
    id: str
    documents: tuple[Document, ...]
    """None = the conversation begins."""
    spent_usd: float
    """What the CLI counts as spent already when it goes on."""
    kept: int
    """The weight of all that is kept, also of other sessions."""


async def find_session(stage: Stage, fresh: str) -> Session:
    """The newest conversation that was kept of this run and those that it goes on from; else one that is begun."""
    return await asyncio.to_thread(_newest, await stage.transcripts.documents(), fresh)


def _newest(documents: list[Document], fresh: str) -> Session:
    size = sum(weight(each.data) for each in documents)
    kept = [each for each in documents if PATH.match(each.path) and is_session(each.session)]
    mains = [each for each in kept if each.path == f"{each.session}.jsonl"]
    if not mains:
        return Session(fresh, (), 0.0, size)
    session = mains[-1].session
    its = tuple(each for each in kept if each.session == session)
    return Session(session, its, _spent_usd(its), size)


def is_session(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


def _spent_usd(documents: tuple[Document, ...]) -> float:
    for document in reversed(documents):
        for line in _lines_with(COST, document.data):
            entry = _entry(line)
            if entry is not None and entry.get("type") == "cost-state":
                return amount(entry, "totalCostUSD")
    return 0.0


def _lines_with(words: bytes, data: bytes) -> Iterator[bytes]:
    """From the last to the first."""
    end = len(data)
    while (found := data.rfind(words, 0, end)) >= 0:
        end = data.rfind(b"\n", 0, found) + 1
        rest = data.find(b"\n", found)
        yield data[end : rest if rest >= 0 else len(data)]


async def put_in_place(stage: Stage, session: Session) -> None:
    """Before the CLI is started. Raises `AgentFailed` where that cannot be."""
    home = f"{CONFIG_DIR}/projects/{project_key(stage.workspace)}"
    for document in session.documents:
        for path, data in await asyncio.to_thread(_files, document):
            key = f"{stage.attempt}/restore/{digest(path)}"
            carried = await stage.commands.run(key, ["/bin/sh", "-c", _PUT, "put", f"{home}/{path}"], input=data)
            if carried.result.exit_code != 0:
                raise AgentFailed(f"the conversation cannot be put in place: {carried.output[-500:]}", reason="resume")


def _files(document: Document) -> list[tuple[str, bytes]]:
    """What describes a subagent is an entry in what is kept, and a file of its own for the CLI."""
    lines, metadata = [], None
    for line in document.data.splitlines():
        entry = _entry(line)
        if entry is None:
            # Masking never breaks a line of JSON; what was broken before is worth nothing to the CLI.
            continue
        if entry.get("type") == METADATA:
            metadata = {name: value for name, value in entry.items() if name != "type"}
        else:
            lines.append(line + b"\n")
    files = [(document.path, b"".join(lines))] if lines else []
    if metadata is not None:
        files.append((document.path.removesuffix(".jsonl") + ".meta.json", json.dumps(metadata).encode()))
    return files


def _entry(line: bytes) -> Frame | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
