"""Passwords of the bus's users: made once, kept in files that only their owner can read."""

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import Invalid
from contracts.partitions import realm_of
from infra.embedded.realm import Realm


class Login(Struct, frozen=True, kw_only=True):
    user: str
    password: str


def directory(data: Path) -> Path:
    return data / "secrets"


def ensure(place: Path, realms: Iterable[Realm] = (Realm(),)) -> dict[str, str]:
    """The password of every login, made where there was none yet, each in `<realm>/<user>.json` beneath `place`.

    Raises `Invalid` for an unreadable file.
    """
    passwords: dict[str, str] = {}
    for realm in realms:
        for folder in (place, place / realm.name):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        passwords |= {
            login: ensure_one(place / realm.name / f"{user}.json", login) for user, login in realm.logins.items()
        }
    return passwords


def read(path: Path, user: str, realm: str = "") -> Login:
    """From `<user>.json` in a directory, beneath its realm, or from the one file. Raises `Invalid` naming the file."""
    file = path / realm / f"{user}.json" if path.is_dir() else path
    try:
        return msgspec.json.decode(file.read_bytes(), type=Login)
    except (OSError, msgspec.MsgspecError) as error:
        if (path / realm_of(realm, 0)).is_dir():
            raise Invalid(
                f"{path} is of a store that is divided into partitions: say how many, `partitions`"
            ) from error
        raise Invalid(f"{file}: cannot be read as credentials of user {user!r}: {error}") from error


def ensure_one(file: Path, user: str) -> str:
    """The password of one login, made where there was none yet. Raises `Invalid` for an unreadable file."""
    if not file.exists():
        _create(file, Login(user=user, password=secrets.token_urlsafe(32)))
    return read(file, user).password


def _create(file: Path, login: Login) -> None:
    """Whole or not at all; if another process was first, its file stays."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(json.dumps(msgspec.to_builtins(login)).encode())
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            return
    finally:
        draft.unlink()
