"""The data directory that an embedded server lives in: whose it is, whether it is free, what it holds."""

import errno
import fcntl
import json
import os
import secrets
import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import Invalid, Unavailable

FORMAT = 1
"""Of the data directory. A larger number means a newer program."""
MIN_FREE_BYTES = 64 * 1024 * 1024


class Record(Struct, frozen=True, kw_only=True):
    """What is known of the server, written before it is started, so that a crash leaves no unknown server."""

    name: str
    port: int
    pid: int = 0
    started: int = 0


def record_file(data: Path) -> Path:
    return data / "run" / "nats.json"


def pid_file(data: Path) -> Path:
    """Written by the server itself."""
    return data / "run" / "nats.pid"


def restoring_file(data: Path) -> Path:
    """There while a backup is put back: what the store holds then is a part of one."""
    return data / "run" / "restoring"


def refuse_half(data: Path) -> None:
    """Raises `Invalid`."""
    if restoring_file(data).exists():
        raise Invalid(f"{data} holds a part of a backup: `cloche restore` was interrupted, run it again")


def prepare(data: Path, *, min_free_bytes: int = MIN_FREE_BYTES) -> None:
    """Make the directory ready.

    Raises `Invalid` (another user's, written by a newer version, not a directory), `Unavailable` (no room).
    """
    try:
        for part in (data, data / "run", data / "nats"):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise Invalid(f"{data} is not a directory: choose another with CLOCHE_DATA") from None
    except PermissionError as error:
        raise Invalid(f"{data}: {error.strerror}: choose a directory of your own with CLOCHE_DATA") from error
    except OSError as error:
        raise no_room(data, error) from error
    if data.stat().st_uid != os.geteuid():
        raise Invalid(f"{data} belongs to another user: choose a directory of your own with CLOCHE_DATA")
    if shutil.disk_usage(data).free < min_free_bytes:
        raise Unavailable(f"{data}: the disk is full: fewer than {min_free_bytes // 1024**2} MiB are free")
    _check_format(data)


def no_room(data: Path, error: OSError) -> Unavailable:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Unavailable(f"{data}: the disk is full" if full else f"{data}: {error.strerror or error}")


def _check_format(data: Path) -> None:
    file = data / "version.json"
    if not file.exists():
        write(file, json.dumps({"format": FORMAT}))
        return
    try:
        found = int(json.loads(file.read_text())["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Invalid(f"{file} cannot be read: {error}") from error
    if found > FORMAT:
        raise Invalid(
            f"{data} was written by a newer version of Cloche (format {found}, this one knows {FORMAT}):"
            " upgrade Cloche, or choose another directory with CLOCHE_DATA"
        )


def read_record(data: Path) -> Record | None:
    try:
        return msgspec.json.decode(record_file(data).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def write(file: Path, text: str) -> None:
    """Whole or not at all, readable by the owner only. Raises `Unavailable` when there is no room."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise no_room(file.parent, error) from error


def lock_file(data: Path) -> Path:
    return data / "nats" / "lock"


def lock(data: Path) -> int | None:
    """The store's lock as a descriptor, or None while a server holds it. It follows the descriptor's copies."""
    descriptor = os.open(lock_file(data), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def log_tail(data: Path, lines: int = 8) -> str:
    """The last words of a server that ended."""
    text = ""
    for name in ("server.out", "server.log"):
        file = data / "nats" / name
        if file.exists():
            text += file.read_text(errors="replace")[-4000:]
    return "\n".join(text.strip().splitlines()[-lines:])
