"""The file events of one sandbox: each is appended only right behind the last one that we know."""

import hashlib

from contracts import codec, subjects
from contracts.message import Fact
from contracts.registry import tag_of
from infra.bus import reader
from infra.bus.connection import Bus
from infra.bus.publisher import Expect, append
from infra.journal import Journal


class Record:
    """So what we believe the log says of the tree is what it says, whoever else may be writing."""

    def __init__(self, bus: Bus, journal: Journal, sandbox: str) -> None:
        self._bus = bus
        self._journal = journal
        self._sandbox = sandbox
        self._filter = subjects.file_events(sandbox)
        self.last = 0
        """Sequence of the last file event; 0 = none."""
        self._log_begins = 1

    async def find_last(self) -> int:
        """Asks the log. Raises `Unavailable`."""
        newest = await reader.last(self._bus, self._filter)
        self.last = newest.seq if newest else 0
        self._log_begins = 1 if newest else (await reader.bounds(self._bus)).first
        return self.last

    async def append(self, fact: Fact) -> int:
        """Returns its sequence once it is stored, however long that takes.

        Raises `Conflict` when somebody else has written file events of this sandbox: what we know is old.
        """
        # The same fact behind the same event has the same id, so a retry after a crash is harmless. Behind nothing it
        # may be a second one: where the log has forgotten the first, the server still knows its id for a while.
        behind = f"{self.last}" if self.last else f"0-{self._log_begins}"
        digest = hashlib.sha256(codec.encode(fact)).hexdigest()[:24]
        written = self._journal.write(self._sandbox, fact, id=f"{self._sandbox}.{behind}.{tag_of(fact)}.{digest}")
        ack = await append(
            self._bus, written.subject, written.payload, written.id, expect=Expect(self._filter, self.last)
        )
        self.last = ack.seq
        return ack.seq
