"""What a file holds, after every byte of it was found to be as it was written."""

from contextlib import closing
from pathlib import Path

import msgspec

from contracts.errors import Invalid
from infra.backup import archive
from infra.backup.contents import ABOUT, FILES, FORMAT, HEAD, STREAMS, About, Backup, Contained, Head, Sum
from infra.backup.shape import refuse_strange
from infra.backup.taking import contained

MOST_HEAD = 64 * 1024
MOST_ABOUT = 1024 * 1024


def look(path: Path) -> Backup:
    """Raises `Invalid` for what is no backup, for one of a newer version, and naming the place of a damage; OSError."""
    sums = archive.check(path)
    names = [each.name for each in sums]
    head = _head(path)
    refuse_strange(names)
    return Backup(
        file=str(path),
        bytes=path.stat().st_size,
        made_at=head.made_at,
        node=head.node,
        streams=tuple(_contained(about, sums) for about in abouts_of(path)),
        files=tuple(dict.fromkeys(name.partition("/")[2] for name in names if name.startswith(f"{FILES}/"))),
        signed_by=archive.signer(path),
    )


def _head(path: Path) -> Head:
    with closing(archive.members(path)) as members:
        first = next(members, None)
        if first is None or first.name != HEAD:
            raise Invalid(f"{path} is no backup: it does not begin with {HEAD!r}")
        content = first.content.whole(MOST_HEAD)
    try:
        head = msgspec.json.decode(content, type=Head)
    except msgspec.MsgspecError as error:
        raise Invalid(f"{path}: {HEAD}: {error}") from error
    if head.format > FORMAT:
        raise Invalid(f"{path} was written by a newer version of Cloche: restore it with that one")
    return head


def abouts_of(path: Path) -> list[About]:
    """Of each stream. Raises `Invalid`, OSError."""
    return [about_in(each) for each in archive.members(path) if is_about(each.name)]


def is_about(name: str) -> bool:
    return name.startswith(f"{STREAMS}/") and name.endswith(f"/{ABOUT}")


def about_in(member: archive.Member) -> About:
    """Raises `Invalid`, OSError."""
    try:
        about = msgspec.json.decode(member.content.whole(MOST_ABOUT), type=About)
    except msgspec.MsgspecError as error:
        raise Invalid(f"{member.name}: {error}") from error
    if member.name != f"{STREAMS}/{about.config.get('name')}/{ABOUT}":
        raise Invalid(f"{member.name!r} is about another stream")
    return about


def _contained(about: About, sums: list[Sum]) -> Contained:
    prefix = f"{STREAMS}/{about.config['name']}/"
    parts = (each.size for each in sums if each.name.startswith(prefix) and not each.name.endswith(ABOUT))
    return contained(about, sum(parts))
