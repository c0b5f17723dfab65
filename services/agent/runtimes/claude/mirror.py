"""What the CLI writes into its files about a conversation, kept as it grows."""

import asyncio
import json
import re

from contracts.errors import AgentFailed, Failure, Invalid
from contracts.events.agent import AgentError
from services.agent.runtimes.claude.frames import Frame, text
from services.agent.stage import Stage

PATH = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/){0,5}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\.jsonl\Z")
MOST_ENTRIES = 10_000
"""Of one frame."""
MOST_BYTES = 64 * 1024 * 1024
"""Of one conversation, with the runs that it goes on from."""
ENTRY_BYTES = 100
"""What an entry counts beyond its own, for the time that it takes to look at it."""
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def weight(data: bytes) -> int:
    return len(data) + ENTRY_BYTES * data.count(b"\n")


class Mirror:
    def __init__(self, stage: Stage, session: str, kept: int) -> None:
        """`kept`: the weight of all that was there as this life of the service came."""
        self._stage = stage
        self._session = session
        self._kept = kept
        self._full = False

    async def keep(self, key: str, frame: Frame) -> None:
        """What a frame mirrors; that of other sessions is left. Raises `Invalid` for one that is too much."""
        path, entries = self._path(frame), frame.get("entries")
        if path is None or not isinstance(entries, list) or self._full or self._stage.is_told(key):
            return
        if len(entries) > MOST_ENTRIES:
            raise Invalid(f"a transcript of more than {MOST_ENTRIES} entries at a time")
        data = await asyncio.to_thread(_written, entries)
        self._kept += weight(data)
        self._full = self._kept > MOST_BYTES
        if self._full:
            await self._tell()
        elif data:
            await self._stage.transcripts.keep(key, self._session, path, data)

    def _path(self, frame: Frame) -> str | None:
        _, found, path = text(frame, "filePath").rpartition("/projects/")
        path = path.partition("/")[2]
        mine = path.partition("/")[0].removesuffix(".jsonl") == self._session
        return path if found and mine and PATH.match(path) else None

    async def _tell(self) -> None:
        words = f"the transcript is no longer kept: it has more than {MOST_BYTES} bytes"
        failure = Failure(code=AgentFailed.code, message=words)
        await self._stage.tell("transcript/full", AgentError(run=self._stage.run, failure=failure, final=False))


def _written(entries: list[object]) -> bytes:
    """Raises `Invalid`."""
    try:
        return "".join(f"{_ENCODER.encode(each)}\n" for each in entries if isinstance(each, dict)).encode()
    except RecursionError as error:
        raise Invalid("a transcript that is nested too deep") from error
