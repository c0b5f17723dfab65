"""Which sessions of other logs are here, and where they lie in the archive.

Every import has a token of its own, so that no two mix: its events are on `cloche.archive.<import>.<rest>`. An import
is there for readers once a record of it is, on `cloche.archive._.imported.<sandbox>`, which is written last.
"""

from collections.abc import AsyncIterator

from contracts import codec, subjects
from contracts.archives import Imported
from contracts.errors import Invalid
from contracts.ids import is_token
from contracts.streams import ARCHIVE_STREAM
from infra.bus import page
from infra.bus.connection import Bus
from infra.bus.page import Entry


async def find_import(bus: Bus, sandbox: str) -> Imported | None:
    """The record of an imported sandbox. Raises `Unavailable`."""
    if not is_token(sandbox):
        return None
    found = await page.fetch_last(bus, subjects.import_record(sandbox), stream=ARCHIVE_STREAM)
    return None if found is None else record_of(found)


async def all_imports(bus: Bus) -> AsyncIterator[Imported]:
    """Every record, the newest of a sandbox last. Raises `Unavailable`."""
    start = 1
    while True:
        found = await page.fetch(bus, subjects.import_record("*"), start, stream=ARCHIVE_STREAM)
        for entry in found.entries:
            if (record := record_of(entry)) is not None:
                yield record
        if not found.entries or not found.pending:
            return
        start = found.entries[-1].seq + 1


def record_of(entry: Entry) -> Imported | None:
    try:
        record: Imported = codec.decode(entry.data, Imported)
    except Invalid:
        return None
    return record
