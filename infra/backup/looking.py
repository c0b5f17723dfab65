"""What a file holds, after every byte of it was found to be as it was written."""

from pathlib import Path

import msgspec

from contracts.errors import Invalid
from infra.backup import archive
from infra.backup.contents import ABOUT, FILES, FORMAT, HEAD, STREAMS, About, Backup, Contained, Head, Sum
from infra.backup.taking import contained


def look(path: Path) -> Backup:
    """Raises `Invalid` for what is no backup, for one of a newer version, and naming the place of a damage; OSError."""
    sums = archive.check(path)
    head: Head | None = None
    abouts: list[About] = []
    try:
        for member in archive.members(path):
            if member.name == HEAD:
                head = msgspec.json.decode(member.content.read(), type=Head)
            elif member.name.startswith(f"{STREAMS}/") and member.name.endswith(f"/{ABOUT}"):
                abouts.append(msgspec.json.decode(member.content.read(), type=About))
    except msgspec.MsgspecError as error:
        raise Invalid(f"{path}: {error}") from error
    if head is None:
        raise Invalid(f"{path} is no backup: it has no {HEAD!r}")
    if head.format > FORMAT:
        raise Invalid(f"{path} was written by a newer version of Cloche: restore it with that one")
    return Backup(
        file=str(path),
        bytes=path.stat().st_size,
        made_at=head.made_at,
        node=head.node,
        streams=tuple(_contained(about, sums) for about in abouts),
        files=tuple(dict.fromkeys(each.name.partition("/")[2] for each in sums if each.name.startswith(f"{FILES}/"))),
    )


def _contained(about: About, sums: list[Sum]) -> Contained:
    prefix = f"{STREAMS}/{about.config['name']}/"
    parts = (each.size for each in sums if each.name.startswith(prefix) and not each.name.endswith(ABOUT))
    return contained(about, sum(parts))
