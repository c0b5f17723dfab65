"""What the CLI remembers of a conversation: kept as it grows, and put in place for one that goes on."""

import json
import re
from typing import NamedTuple
from uuid import UUID

from contracts.errors import AgentFailed
from services.agent.digest import digest
from services.agent.runtimes.claude.command_line import CONFIG_DIR, project_key
from services.agent.runtimes.claude.frames import Frame, amount, parts, text
from services.agent.stage import Stage
from services.agent.transcripts import Document

_PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/){0,5}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\.jsonl\Z")
_PUT = 'umask 077 && mkdir -p "${1%/*}" && cat >"$1"'
METADATA = "agent_metadata"


class Session(NamedTuple):
    id: str
    documents: tuple[Document, ...]
    """None = the conversation begins."""

    @property
    def spent_usd(self) -> float:
        """What the CLI counts as spent already when it goes on."""
        states = [
            entry for each in self.documents for entry in _entries(each.data) if entry.get("type") == "cost-state"
        ]
        return amount(states[-1], "totalCostUSD") if states else 0.0


async def find_session(stage: Stage, fresh: str) -> Session:
    """The newest conversation that was kept of this run and those that it goes on from; else one that is begun."""
    kept = [each for each in await stage.transcripts.documents() if _PATH.match(each.path) and is_session(each.session)]
    mains = [each for each in kept if each.path == f"{each.session}.jsonl"]
    if not mains:
        return Session(fresh, ())
    session = mains[-1].session
    return Session(session, tuple(each for each in kept if each.session == session))


def is_session(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


async def keep(stage: Stage, key: str, session: str, frame: Frame) -> None:
    """A frame of the CLI that mirrors what it has written to a file of its own; those of other sessions are left."""
    _, found, path = text(frame, "filePath").rpartition("/projects/")
    path = path.partition("/")[2]
    entries = parts(frame, "entries")
    if not found or not entries or not _PATH.match(path) or path.partition("/")[0].removesuffix(".jsonl") != session:
        return
    data = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries)
    await stage.transcripts.keep(key, session, path, data.encode())


async def put_in_place(stage: Stage, session: Session) -> None:
    """Before the CLI is started. Raises `AgentFailed` where that cannot be."""
    home = f"{CONFIG_DIR}/projects/{project_key(stage.workspace)}"
    for document in session.documents:
        for path, data in _files(document):
            key = f"{stage.attempt}/restore/{digest(path)}"
            carried = await stage.commands.run(key, ["/bin/sh", "-c", _PUT, "put", f"{home}/{path}"], input=data)
            if carried.result.exit_code != 0:
                raise AgentFailed(f"the conversation cannot be put in place: {carried.output[-500:]}", reason="resume")


def _files(document: Document) -> list[tuple[str, bytes]]:
    """What describes a subagent is an entry in what is kept, and a file of its own for the CLI."""
    lines, metadata = [], None
    for entry in _entries(document.data):
        if entry.get("type") == METADATA:
            metadata = {name: value for name, value in entry.items() if name != "type"}
        else:
            lines.append(json.dumps(entry, separators=(",", ":")) + "\n")
    files = [(document.path, "".join(lines).encode())] if lines else []
    if metadata is not None:
        files.append((document.path.removesuffix(".jsonl") + ".meta.json", json.dumps(metadata).encode()))
    return files


def _entries(data: bytes) -> list[Frame]:
    found = []
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            # Masking never breaks a line of JSON; what was broken before is worth nothing to the CLI.
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return found
