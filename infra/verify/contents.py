"""The contents that a log names, looked at in the store: each is there, and is what its name says."""

from collections.abc import Callable

from contracts.naming import Names
from infra.blobs import layout
from infra.blobs.errors import BlobDamaged, BlobMissing
from infra.log.view import BlobSource

AT_ONCE = 400
Tell = Callable[[int, int], None]
"""How many are done, of how many."""


async def check(blobs: BlobSource, names: Names, tell: Tell) -> int:
    """Returns how many were looked at. Raises `Unavailable`."""
    for manifest in names.manifests():
        lines = names.lines_of(manifest)
        if await _stream(blobs, names, manifest, lines.feed):
            lines.close()
    waiting = list(names.waiting())
    for at in range(0, len(waiting), AT_ONCE):
        tell(at, len(waiting))
        await _some(blobs, names, waiting[at : at + AT_ONCE])
    return names.close()


async def _some(blobs: BlobSource, names: Names, wanted: list[str]) -> None:
    left = set(wanted)
    async for name, _ in blobs.get_many(wanted):
        names.right(name)
        left.discard(name)
    for name in wanted:
        if name in left:
            await _stream(blobs, names, name, lambda _: None)


async def _stream(blobs: BlobSource, names: Names, name: str, feed: Callable[[bytes], None]) -> bool:
    """Whether it is right."""
    try:
        async for chunk in blobs.stream(layout.check_name(name)):
            feed(chunk)
    except BlobMissing:
        return False
    except BlobDamaged as error:
        names.wrong(name, error.message)
        return False
    names.right(name)
    return True
