"""A sandbox from the warm pool beside one that is made from nothing."""

import asyncio
import time
from typing import Any

from contracts.errors import Invalid, Unavailable
from infra.sandbox.base import Provider
from infra.sandbox.providers import load_provider
from infra.sandbox.shape import shape_of
from infra.settings import Settings
from services.cli.bench.figure import Aim, Figure
from services.cli.bench.percentile import median
from services.cli.bench.rig import Rig
from services.cli.bench.sizes import Sizes

AIM_RATIO = 0.25
READY_S = 120.0
LOOK_S = 0.05


async def claim(rig: Rig, sizes: Sizes) -> list[Figure]:
    """Of the kind that the node makes by default. Raises `Invalid` where it keeps no blanks."""
    if rig.settings.pool.size == 0:
        raise Invalid("nothing can be claimed from a pool of none: unset CLOCHE_POOL")
    isolation = rig.settings.sandbox.isolation
    assert isolation is not None
    warm: list[float] = []
    cold: list[float] = []
    async with load_provider(isolation, rig.settings.data) as provider:
        for _ in rig.progress.track(range(sizes.claims), description=f"claim on {isolation}"):
            # Before both: while a blank is being made, everything else is slower.
            await _until_blank(provider, rig.settings)
            warm.append(await _created_ms(rig, {}))
            await _until_blank(provider, rig.settings)
            cold.append(await _created_ms(rig, of_another_shape(rig.settings)))
    return [
        Figure(
            what=f"create on {isolation}, from the warm pool",
            value=median(warm),
            unit="ms",
            bare=median(cold),
            beside="cold create",
            ratios=tuple(mine / theirs for mine, theirs in zip(warm, cold, strict=True)),
            aim=Aim(ratio_below=AIM_RATIO),
        )
    ]


def of_another_shape(settings: Settings) -> dict[str, Any]:
    """A sandbox that no blank of the node's pool can serve, and that costs the same to make."""
    return {"resources": {"pids": settings.sandbox.resources.pids - 1}}


async def _created_ms(rig: Rig, spec: dict[str, Any]) -> float:
    began = time.perf_counter()
    sandbox = await rig.cloche.create(spec)
    took = time.perf_counter() - began
    await sandbox.remove()
    return took * 1000


async def _until_blank(provider: Provider, settings: Settings) -> None:
    shape, wanted = shape_of(settings.sandbox), settings.pool.size
    try:
        async with asyncio.timeout(READY_S):
            while (await provider.blanks()).get(shape, 0) < wanted:  # noqa: ASYNC110  the pool tells nobody
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise Unavailable(f"no blank sandbox became ready within {READY_S:g} s; see the node's log") from None
