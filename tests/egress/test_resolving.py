"""Names are looked up once, and a sandbox whose lookups hang holds up nobody but itself."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from contracts.errors import Unavailable
from infra.resolving import LOOKUPS_A_SANDBOX, RESERVE, THREADS, Resolver
from tests.bus.servers import until


class NameServer:
    """Answers names that begin with `slow` once it is told to, and others at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def look_up(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        if host.startswith("slow"):
            self.answers.wait()
        if host.startswith("none"):
            raise OSError(-2, "Name or service not known")
        return ("192.0.2.7",)


@contextmanager
def name_server() -> Iterator[NameServer]:
    server = NameServer()
    try:
        yield server
    finally:
        server.answers.set()


@asynccontextmanager
async def asking(resolver: Resolver, *names: tuple[str, str]) -> AsyncIterator[list[asyncio.Task[tuple[str, ...]]]]:
    """Each a name and who asks for it."""
    tasks = [asyncio.create_task(resolver.resolve(host, asker=asker)) for host, asker in names]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_many_that_ask_for_one_name_at_once_have_it_looked_up_once() -> None:
    with name_server() as server:
        async with Resolver(look_up=server.look_up) as resolver:
            async with asking(resolver, *(("slow.test", f"sb-{n % 3}") for n in range(50))) as tasks:
                await until(lambda: len(server.asked) > 0)
                server.answers.set()
                assert set(await asyncio.gather(*tasks)) == {("192.0.2.7",)}
            assert server.asked == ["slow.test"]
            assert resolver.known("slow.test") == ("192.0.2.7",)


async def test_more_names_than_a_sandbox_may_look_up_at_once_wait_for_their_turn() -> None:
    names = [f"slow-{n}.test" for n in range(3 * LOOKUPS_A_SANDBOX)]
    with name_server() as server:
        async with (
            Resolver(look_up=server.look_up) as resolver,
            asking(resolver, *((name, "sb") for name in names)) as tasks,
        ):
            await until(lambda: len(server.asked) == LOOKUPS_A_SANDBOX)
            server.answers.set()
            await asyncio.gather(*tasks)
        assert sorted(server.asked) == sorted(names)


async def test_a_name_that_waits_for_its_turn_is_given_up_in_time() -> None:
    with name_server() as server:
        async with Resolver(timeout_s=0.05, look_up=server.look_up) as resolver:
            async with asking(resolver, *((f"slow-{n}.test", "sb") for n in range(LOOKUPS_A_SANDBOX + 1))) as tasks:
                assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {Unavailable}
            assert len(server.asked) == LOOKUPS_A_SANDBOX


async def test_sandboxes_whose_lookups_hang_do_not_keep_another_from_its_own() -> None:
    hostile = [(f"slow-{n}.test", f"hostile-{n % (RESERVE - 1)}") for n in range(4 * THREADS)]
    with name_server() as server:
        async with Resolver(look_up=server.look_up) as resolver, asking(resolver, *hostile):
            await until(lambda: len(server.asked) >= THREADS - RESERVE)
            assert await resolver.resolve("quick.test", asker="honest") == ("192.0.2.7",)


async def test_a_name_that_waits_in_the_queue_of_one_sandbox_is_looked_up_for_another() -> None:
    queue = [*((f"slow-{n}.test", "hostile") for n in range(LOOKUPS_A_SANDBOX)), ("popular.test", "hostile")]
    with name_server() as server:
        async with Resolver(look_up=server.look_up) as resolver, asking(resolver, *queue):
            await until(lambda: len(server.asked) == LOOKUPS_A_SANDBOX)
            assert await resolver.resolve("popular.test", asker="honest") == ("192.0.2.7",)


async def test_a_lookup_that_fails_is_not_remembered() -> None:
    with name_server() as server:
        async with Resolver(look_up=server.look_up) as resolver:
            for _ in range(2):
                with pytest.raises(Unavailable, match="no address"):
                    await resolver.resolve("none.test", asker="sb")
        assert server.asked == ["none.test", "none.test"]
