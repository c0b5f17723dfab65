"""What an earlier life had let through when it died: told once, by the next."""

import asyncio
import logging
from pathlib import Path

from msgspec.structs import replace

from contracts.errors import ClocheError, Unavailable
from contracts.events.network import NetworkAllowed
from infra import clock
from services.egress.ledger import FRESH, Ledger, Name, name_of
from services.egress.record import Pen

logger = logging.getLogger(__name__)

DIED = "egress died"
AT_A_TIME = 200
PAUSE_S = 1.0


def left_in(directory: Path) -> dict[Path, Name]:
    """Every ledger there. To be called before a new one is begun."""
    if not directory.is_dir():
        return {}
    for half_made in directory.glob(f"*{FRESH}"):
        half_made.unlink()
    named = {path: name_of(path) for path in sorted(directory.iterdir())}
    return {path: name for path, name in named.items() if name is not None}


async def tell(pen: Pen, left: dict[Path, Name]) -> None:
    """May be interrupted at any moment, and begun again."""
    for path, name in left.items():
        try:
            await _tell_one(pen, Ledger.again(path, name))
        except (OSError, ClocheError) as error:
            logger.warning("%s cannot be told for now: %s", path, error)


async def _tell_one(pen: Pen, ledger: Ledger) -> None:
    told = ledger.last_told
    if told is not None and told.requests and not await _has(pen, ledger):
        await pen.publish(ledger.name, told)
    ledger.confirm()
    while ledger.open:
        some = list(ledger.open.items())[:AT_A_TIME]
        told = ledger.tell(
            clock.now(),
            [(number, request if number in ledger.ended else _cut_short(request)) for number, request in some],
        )
        await pen.publish(ledger.name, told)
        ledger.confirm()
    ledger.close()


def _cut_short(request: NetworkAllowed) -> NetworkAllowed:
    return replace(request, error=DIED)


async def _has(pen: Pen, ledger: Ledger) -> bool:
    assert ledger.last_told is not None
    while True:
        try:
            return await pen.has(ledger.name, ledger.last_told)
        except Unavailable:
            await asyncio.sleep(PAUSE_S)
