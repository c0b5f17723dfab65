"""A real server and a real guardian process, and somebody who writes what the other services would."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from contracts import codec, subjects
from contracts.events.guardian import GuardianEscalated, GuardianIntervention, GuardianObserved
from contracts.guardian import Guardian
from contracts.message import CommandHead, Fact
from contracts.streams import COMMANDS_STREAM, LOG_STREAM
from infra.bus import page, reader
from infra.bus.connection import Bus
from infra.embedded.users import FAMILIES
from infra.journal import Journal
from services.guardian.app import make_app
from services.guardian.engine import bind, filters
from services.guardian.history import History, Judged
from services.guardian.moments import milliseconds
from tests.bus.servers import Server, nats_in, until
from tests.guardian.story import Story
from tests.services.node import READY_S, Service, settings_in

Word = GuardianObserved | GuardianIntervention | GuardianEscalated
WRITERS = {family: service for service, families in FAMILIES.items() for family in families}
FORGETFUL_NS = 100_000_000
"""The server forgets ids so soon, so that only the guardian itself can keep from repeating itself."""


class Told(NamedTuple):
    sequence: int
    sandbox: str
    id: str
    fact: Word


class InProcess:
    """The guardian here and now: for tests that kill nothing."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        app, ready = make_app(settings_in(self._data)), asyncio.Event()
        self._task = asyncio.create_task(app.serve(ready.set))
        waiting = asyncio.create_task(ready.wait())
        done, _ = await asyncio.wait({self._task, waiting}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        assert waiting in done, self._task

    async def kill(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None


class Rig:
    def __init__(self, server: Server, admin: Bus, journals: dict[str, Journal], service: Service | InProcess) -> None:
        self.server = server
        self.admin = admin
        self.service = service
        self._journals = journals

    async def play(self, story: Story, first: int = 0) -> int:
        """Writes the story from its `first` event on, each as the service that owns it. Returns the last sequence."""
        sequence = 0
        for number, event in enumerate(story.events[first:], first):
            journal = self._journals[WRITERS[event.type.partition(".")[0]]]
            sequence = await journal.append(journal.write(story.sandbox, event.data, id=f"{story.sandbox}.{number}"))
        return sequence

    async def write(self, service: str, sandbox: str, fact: Fact, *, command: str) -> int:
        journal = self._journals[service]
        return await journal.append(journal.write(sandbox, fact, id=f"{sandbox}.{command}", command=command))

    async def spoil(self, sandbox: str, raw: bytes) -> None:
        """Something that is no event, where one should be."""
        journal = self._journals["agent"]
        written = journal.write(sandbox, Story().run().events[0].data, id=f"spoilt.{len(raw)}")
        await journal.append(written._replace(payload=raw))

    async def told(self, sandbox: str = "*") -> list[Told]:
        entries = reader.read(self.admin, subjects.events_of(sandbox, family="guardian"), 1, follow=False)
        found = []
        async for entry in entries:
            head = codec.decode_head(entry.data)
            fact = codec.decode_fact(head)
            if head.sandboxid != subjects.NO_SANDBOX:
                assert isinstance(fact, Word)
                found.append(Told(entry.seq, head.sandboxid, head.id, fact))
        return found

    async def marks(self) -> list[int]:
        entries = reader.read(self.admin, subjects.events_of(subjects.NO_SANDBOX, family="guardian"), 1, follow=False)
        facts = [codec.decode_fact(codec.decode_head(entry.data)) async for entry in entries]
        return [fact.evidence[0] for fact in facts if isinstance(fact, GuardianObserved)]

    async def hears(self, count: int, sandbox: str = "*") -> list[Told]:
        """Waits until so much is told."""

        async def enough() -> bool:
            return len(await self.told(sandbox)) >= count

        await until(enough)
        return await self.told(sandbox)

    async def orders(self) -> list[tuple[str, CommandHead]]:
        found = await page.fetch(self.admin, subjects.COMMANDS, 1, stream=COMMANDS_STREAM)
        return [(entry.subject, msgspec.json.decode(entry.data, type=CommandHead)) for entry in found.entries]

    async def over_history(self, settings: Guardian) -> list[Judged]:
        """The same log once more, all at once."""
        history = History(bind(settings))
        judged: list[Judged] = []
        async for entry in reader.read(self.admin, filters(history.wanted), 1, follow=False):
            judged += history.feed(entry.seq, milliseconds(entry.time), entry.data)
        return judged

    async def is_idle(self, sandbox: str) -> None:
        """Until everything so far was judged: shown by something that is always found."""
        marker = Story(f"{sandbox}-marker").begin().command("rm", "-rf", "/")
        await self.play(marker)
        await self.hears(1, marker.sandbox)


def configure(data: Path, settings: dict[str, Any]) -> None:
    (data / "cloche.toml").write_text("\n".join(_toml("guardian", settings)))


def _toml(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _toml(f'{name}."{key}"', each)
    else:
        yield f"{name} = {msgspec.json.encode(value).decode()}"


@contextlib.asynccontextmanager
async def rig_in(directory: Path, *, process: bool = False, **settings: Any) -> AsyncIterator[Rig]:
    """With the guardian not yet started."""
    async with nats_in(directory) as server:
        admin = await server.connect("admin")
        for stream in (LOG_STREAM, COMMANDS_STREAM):
            config = (await admin.api(f"STREAM.INFO.{stream}"))["config"]
            await admin.api(f"STREAM.UPDATE.{stream}", config | {"duplicate_window": FORGETFUL_NS})
        journals = {
            name: Journal(await server.connect(name), service=name, node="local") for name in set(WRITERS.values())
        }
        configure(server.data, settings)
        service = Service("guardian", server.data, {}) if process else InProcess(server.data)
        try:
            yield Rig(server, admin, journals, service)
        finally:
            await service.kill()
