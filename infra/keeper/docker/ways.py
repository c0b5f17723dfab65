"""The ways into the containers of this node."""

import asyncio
import contextlib
from collections.abc import Mapping

from contracts.errors import ClocheError, Unavailable
from infra.keeper.docker.engine import Engine
from infra.keeper.docker.instance import as_launch_failed
from infra.keeper.docker.plain_way import PlainWay
from infra.keeper.docker.shell import fits_shell
from infra.keeper.docker.slot import SlotBroken
from infra.keeper.docker.slot_way import SlotWay
from infra.keeper.docker.terminal_way import TerminalWay
from infra.keeper.launch import Way
from infra.keeper.protocol import Start
from infra.keeper.stock import Stock
from infra.target import DockerTarget

KILLED_S = 30.0


class DockerWays:
    """One connection per engine, made when it is first needed."""

    def __init__(self) -> None:
        self._engines: dict[str, Engine] = {}
        self._opening = asyncio.Lock()

    def stock(self) -> Stock:
        pools = [engine.slots for engine in self._engines.values()]
        return Stock(
            sum(pool.size for pool in pools), sum(pool.hits for pool in pools), sum(pool.misses for pool in pools)
        )

    async def open(self, start: Start, target: DockerTarget) -> Way:
        """Raises `LaunchFailed`. Starts nothing of the command."""
        try:
            engine = await self._engine(target.engine)
            if target.shell is None or not fits_shell(start):
                return PlainWay(engine, target)
            if start.pty is not None:
                return TerminalWay(engine, target)
            engine.slots.expect(target, start.env)
            slot = await engine.slot(target)
        except SlotBroken:
            return PlainWay(engine, target)
        except ClocheError as error:
            raise as_launch_failed(error) from error
        if slot.has_env:
            return SlotWay(engine, target, slot)
        slot.close()
        return PlainWay(engine, target)

    async def prepare(self, target: DockerTarget, env: Mapping[str, str]) -> None:
        """Until the container has its slots, or it is clear that it gets none: that is no error."""
        if target.shell is None:
            return
        with contextlib.suppress(Unavailable):
            slots = (await self._engine(target.engine)).slots
            slots.expect(target, env)
            slots.fill(target)
            await slots.filled(target)

    async def kill_left(self, target: DockerTarget, exec_id: str) -> None:
        """What is left of a command that nobody holds, where its engine can be used.

        Returns when it is done, or goes on in the background after 30 s.
        """
        with contextlib.suppress(Unavailable):
            killing = (await self._engine(target.engine)).kill_later(target, exec_id)
            await asyncio.wait([killing], timeout=KILLED_S)

    async def _engine(self, address: str) -> Engine:
        async with self._opening:
            if address not in self._engines:
                self._engines[address] = await Engine.open(address)
            return self._engines[address]

    async def aclose(self) -> None:
        await asyncio.gather(*(engine.aclose() for engine in self._engines.values()))
        self._engines.clear()
