"""Words that come in parts: each character is told once, wherever the service dies."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from contracts.events.agent import AgentMessage
from contracts.message import Fact
from services.agent.partials import Partials


class Book:
    """Where the parts are told; closed after so many, as if the service had died."""

    def __init__(self, most: int) -> None:
        self.told: list[AgentMessage] = []
        self._most = most

    async def write(self, key: str, fact: Fact) -> None:
        assert isinstance(fact, AgentMessage)
        if len(self.told) >= self._most:
            raise asyncio.CancelledError
        self.told.append(fact)


async def tell(words: list[str], most: int, known: dict[str, int], flushes: set[int]) -> Book:
    book = Book(most)
    partials = Partials(book, "run", dict(known))  # type: ignore[arg-type]
    try:
        for number, word in enumerate(words):
            await partials.add("message", "m", word)
            if number in flushes:
                await partials._flush("message", "m")
        await partials.whole("message", "m")
    except asyncio.CancelledError:
        pass
    return book


@given(
    st.lists(st.text(max_size=5), max_size=12),
    st.integers(0, 6),
    st.sets(st.integers(0, 12)),
    st.sets(st.integers(0, 12)),
)
def test_every_character_is_told_once_across_a_crash(
    words: list[str], crash: int, before: set[int], after: set[int]
) -> None:
    first = asyncio.run(tell(words, crash, {}, before))
    known = {"agent.message/m": max((each.offset + len(each.text) for each in first.told), default=0)}
    second = asyncio.run(tell(words, 1000, known, after))
    parts = [*first.told, *second.told]
    assert "".join(each.text for each in parts) == "".join(words)
    assert [each.offset for each in parts] == [sum(len(each.text) for each in parts[:n]) for n in range(len(parts))]
