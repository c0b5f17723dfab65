"""What is left of the conversation so far, where a run goes on from another, or a program from one that was lost."""

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Self

from services.agent.digest import digest
from services.agent.runtimes.openhands import orders
from services.agent.stage import Stage
from services.agent.transcripts import Document

LOST = "[SYSTEM] Your program was lost in the middle of its work. See how things are, then go on."
EVENTS = "events/"


class Memory:
    def __init__(self, stage: Stage, documents: Sequence[Document]) -> None:
        self._stage = stage
        self._documents = documents
        self.session = documents[-1].session if documents else _session_of(stage.run)

    @classmethod
    async def of(cls, stage: Stage) -> Self:
        """Raises `BlobMissing`, `BlobDamaged`."""
        anew = stage.attempt == 1 and stage.order.resumed is None
        return cls(stage, [] if anew else await stage.transcripts.documents())

    def restoring(self) -> Iterator[bytes]:
        """Orders that put it in place."""
        return orders.restore(each for each in self._documents if each.session == self.session)

    def first_words(self) -> list[str]:
        """Of the first turn of a program."""
        if self._stage.attempt == 1:
            return [self._stage.order.prompt]
        story = self._stage.story or LOST
        return [story] if self._knows_prompt() else [self._stage.order.prompt, story]

    def _knows_prompt(self) -> bool:
        prompt = json.dumps(self._stage.order.prompt, ensure_ascii=False).encode()
        events = (each for each in self._documents if each.path.startswith(EVENTS))
        return any(prompt in each.data and b'"source":"user"' in each.data for each in events)


def _session_of(run: str) -> str:
    return str(uuid.UUID(hex=(digest(run) * 2)[:32]))
