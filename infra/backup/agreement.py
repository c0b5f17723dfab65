"""Streams are put back with the settings of this version: those in a file say only whether it is a backup of ours.

A stranger's could let history be deleted, repeat it elsewhere, or draw in what is no part of it.
"""

from typing import Any

from contracts.errors import Invalid
from infra.backup.contents import About
from infra.bus.log_guard import FORBIDDEN_ON_LOG
from infra.bus.partitions import KEY as PARTITIONS
from infra.bus.provision import same

SAME = ("retention", "storage")
"""Else the same messages would mean something else."""
KEPT = ("deny_delete", "deny_purge")
"""What guards a stream guarded it when it was taken."""
ABSENT = (*FORBIDDEN_ON_LOG, "republish", "placement")
"""Only as this version has them, or not at all."""


def refuse_contradictions(about: About, ours: dict[str, Any]) -> None:
    """Raises `Invalid` with the field's name in its details."""
    theirs = about.config
    for field in SAME:
        if not same(theirs.get(field), ours[field]):
            raise _refusal(ours, field, theirs.get(field))
    for field in KEPT:
        if ours.get(field) and not theirs.get(field):
            raise _refusal(ours, field, theirs.get(field))
    for field in ABSENT:
        if theirs.get(field) and not same(theirs[field], ours.get(field)):
            raise _refusal(ours, field, theirs[field])
    _refuse_other_subjects(theirs, ours)
    _refuse_other_partitions(theirs, ours)


def _refuse_other_subjects(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    subjects = theirs.get("subjects")
    if not isinstance(subjects, list) or not all(each in ours["subjects"] for each in subjects):
        raise _refusal(ours, "subjects", subjects)


def _refuse_other_partitions(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    there, here = (_metadata(each).get(PARTITIONS, "1") for each in (theirs, ours))
    if there != here:
        name = ours["name"]
        raise Invalid(
            f"{name}: it is one of {there!s:.9} partitions, and `partitions` is {here} here", field=PARTITIONS
        )


def _metadata(config: dict[str, Any]) -> dict[str, Any]:
    found = config.get("metadata")
    return found if isinstance(found, dict) else {}


def _refusal(ours: dict[str, Any], field: str, found: object) -> Invalid:
    name = ours["name"]
    return Invalid(
        f"{name}: its {field} is {found!r:.200} in the backup, and {ours.get(field)!r} in every store of Cloche:"
        " nothing was changed",
        field=f"{name}.{field}",
    )
