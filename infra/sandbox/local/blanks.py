"""Sandboxes that are up and wait for their specification. Taking one is a rename, so nobody takes it twice."""

import secrets
from collections import Counter
from contextlib import suppress

import msgspec

from contracts.errors import Invalid, SandboxCreationFailed, SandboxInvalidState
from contracts.spec import SandboxSpec
from infra.observing import catalogue
from infra.sandbox.base import CreateRequest
from infra.sandbox.local.layout import DataFiles, SandboxFiles
from infra.sandbox.local.making import begin_record, check_spec, describe, fill_workspace, make_sandbox
from infra.sandbox.local.processes import is_alive
from infra.sandbox.local.record import Record, load_record, store_record
from infra.sandbox.shape import shape_of

NOBODYS = "blank"
"""The id in the record of a blank. A sandbox may have the same."""


DISCARDED = "discarded"
"""In place of the shape in a name: it is being removed."""


def make_blank(spec: SandboxSpec, data: DataFiles, files: SandboxFiles) -> Record:
    """On disk, not started. Raises what `make_sandbox` raises, and `Invalid` for one that is not empty."""
    if spec.workspace.source is not None:
        raise Invalid("workspace.source: a blank is empty, for it serves any sandbox of its shape")
    check_spec(spec, data.data)
    try:
        record = begin_record(CreateRequest(sandbox=NOBODYS, node=NOBODYS, spec=spec), data, files)
        fill_workspace(spec, files, record.host_uid)
        record = msgspec.structs.replace(record, ready=True, blank=True)
        store_record(files.record, record)
    except OSError as error:
        raise SandboxCreationFailed(f"cannot make a blank sandbox: {error}") from error
    return record


def new_blank(spec: SandboxSpec, data: DataFiles) -> SandboxFiles:
    return SandboxFiles(data.blanks / f"{shape_of(spec)}.{secrets.token_hex(6)}")


def all_blanks(data: DataFiles, shape: str = "*") -> list[SandboxFiles]:
    return [SandboxFiles(root) for root in sorted(data.blanks.glob(f"{shape}.*"))]


def shape_in(files: SandboxFiles) -> str:
    return files.root.name.partition(".")[0]


def is_ready(files: SandboxFiles) -> bool:
    """It is up and may be taken."""
    try:
        record = load_record(files.record)
    except SandboxInvalidState:
        return False
    up = record is not None and record.identity is not None and is_alive(record.identity)
    return up and shape_in(files) != DISCARDED


def count_ready(data: DataFiles) -> dict[str, int]:
    return dict(Counter(shape_in(files) for files in all_blanks(data) if is_ready(files)))


def set_aside(files: SandboxFiles) -> SandboxFiles | None:
    """Nobody can take it any more; None where somebody has."""
    aside = files.root.with_name(f"{DISCARDED}.{files.root.name.rpartition('.')[2]}")
    try:
        files.root.rename(aside)
    except FileNotFoundError:
        return None
    return SandboxFiles(aside)


def take_or_make(request: CreateRequest, data: DataFiles) -> Record:
    """A blank of the right shape becomes this sandbox; without one it is made. As idempotent as `make_sandbox`."""
    files = data.of(request.sandbox)
    if request.spec.workspace.source is None and request.fill is None and not files.root.exists():
        check_spec(request.spec, data.data)
        _take(shape_of(request.spec), data, files)
    record = load_record(files.record)
    catalogue.pool_takes.add("hit" if record is not None and record.blank else "miss")
    if record is None or not record.blank:
        return make_sandbox(request, data)
    return _adopt(record, request, files)


def _take(shape: str, data: DataFiles, files: SandboxFiles) -> None:
    for blank in all_blanks(data, shape):
        if is_ready(blank):
            with suppress(OSError):  # another was faster
                blank.root.rename(files.root)
                return


def _adopt(record: Record, request: CreateRequest, files: SandboxFiles) -> Record:
    """With its own environment and the blank's processes. Done again after a crash, it comes out the same."""
    kept = {
        name: getattr(record, name) for name in ("host_uid", "enforcement", "ready", "instance", "identity", "cgroup")
    }
    adopted = msgspec.structs.replace(describe(request, record.host_uid), **kept)
    store_record(files.record, adopted)
    return adopted
