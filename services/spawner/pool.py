"""Keeps blank sandboxes ready, so that creating one takes a moment."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from contracts.errors import ClocheError
from contracts.spec import Isolation, SandboxSpec
from infra.sandbox.base import Provider
from infra.sandbox.shape import shape_of

logger = logging.getLogger(__name__)

RETRY_S = 60.0
"""After a blank could not be made: an image that is missing does not come by asking. Also how often is looked whether
the others still live."""
DRAIN_S = 20.0
AFTER_START_S = 1.0
"""A node that was started for one command is gone by then, and needs no blank."""
LOOK_S = 0.05


class Pool:
    """Blanks live with their provider, so a pool that dies forgets nothing: the next one counts what is there."""

    def __init__(
        self,
        *,
        providers: Mapping[Isolation, Provider],
        specs: Sequence[SandboxSpec],
        size: int,
        after_s: float,
        look_s: float = RETRY_S,
    ) -> None:
        self._providers = providers
        self._specs = [spec for spec in specs if size > 0 and spec.isolation in providers]
        self._size = size
        self._after_s = after_s
        self._look_s = look_s
        self._busy = 0
        self._touched = 0.0
        self._taken = asyncio.Event()
        self.ready = 0
        """Blanks, when it last looked."""

    async def __aenter__(self) -> Self:
        """While a sandbox is being made for somebody, no blank is."""
        self._busy += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._busy -= 1
        self._touched = asyncio.get_running_loop().time()
        self._taken.set()

    async def keep_filled(self) -> None:
        """Until cancelled; then the blanks are removed."""
        try:
            await self._trim()
            self._touched = asyncio.get_running_loop().time() + AFTER_START_S
            while self._specs:
                self._taken.clear()
                await self._fill()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._look_s):
                        await self._taken.wait()
        finally:
            await asyncio.shield(self._drain())

    async def _fill(self) -> None:
        for spec in self._specs:
            assert spec.isolation is not None
            provider = self._providers[spec.isolation]
            try:
                while (await provider.blanks()).get(shape_of(spec), 0) < self._size:
                    await self._until_quiet()
                    await provider.prepare(spec)
            except (ClocheError, OSError) as error:
                logger.info("no blank %s sandbox: %s", spec.isolation, error)
        await self._count()

    async def _count(self) -> None:
        self.ready = 0
        for provider in self._providers.values():
            with suppress(ClocheError, OSError):
                self.ready += sum((await provider.blanks()).values())

    async def _until_quiet(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := self._touched + self._after_s - loop.time()) > 0 or self._busy:  # noqa: ASYNC110  no event for quiet
            await asyncio.sleep(max(left, LOOK_S))

    async def _trim(self) -> None:
        """What an earlier pool left, of shapes that nobody wants any more or more than are wanted."""
        keep = {shape_of(spec): self._size for spec in self._specs}
        for provider in self._providers.values():
            with suppress(ClocheError, OSError):
                await provider.discard_blanks(keep)

    async def _drain(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                for provider in self._providers.values():
                    with suppress(ClocheError, OSError):
                        await provider.discard_blanks()
