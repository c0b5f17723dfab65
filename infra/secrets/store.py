"""The credentials of this node: a file each, or a variable of the service's environment. None enters a sandbox."""

import contextlib
import datetime
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import ContextMissing, Invalid
from contracts.ids import is_token
from infra.durable import sync_directory, write_atomically
from infra.secrets.value import MAX_BYTES, check_value
from infra.secrets.variables import SecretVariables, canonical
from infra.settings import Settings

HOSTS = ".hosts"
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Known(Struct, frozen=True, kw_only=True):
    """What may be told of a secret: everything but its value."""

    name: str
    origin: str
    """`file`, or `environment` with the variable."""
    changed_at: datetime.datetime | None = None
    hosts: tuple[str, ...] = ()
    """The only hosts that it may be sent to. Empty = any that a specification names."""
    trouble: str | None = None
    """Why it cannot be used."""


def directory_of(settings: Settings) -> Path:
    """Apart from the bus's own passwords: this directory may be mounted where those are not."""
    return settings.egress.secrets or settings.data / "vault"


class SecretStore:
    """Reads anew each time, so that a changed credential is used at once. A file is asked before the environment.

    Every file must be closed to all but its owner, and so must their directory.
    """

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self.directory = directory
        self._variables = SecretVariables(env)

    @classmethod
    def of(cls, settings: Settings, env: Mapping[str, str] = os.environ) -> "SecretStore":
        return cls(directory_of(settings), env)

    def read(self, name: str, host: str | None = None) -> str:
        """The value, for a request to `host`.

        Raises `ContextMissing` (there is none of that name), `Invalid` (others may read it, it cannot be sent in a
        header, or it is not for that host). No text of these holds any of the value.
        """
        value = self._from_file(name)
        if value is None:
            value = self._variables.read(name)
        if value is None:
            raise ContextMissing(self._missing(name))
        hosts = self.hosts(name)
        if host is not None and hosts and host not in hosts:
            raise Invalid(f"secret {name!r} may be sent to {', '.join(hosts)} only, not to {host}")
        return value

    def hosts(self, name: str) -> tuple[str, ...]:
        """Those that a secret of this name is bound to; empty = any. Raises `Invalid` where that cannot be read."""
        bound = self._hosts_by_file(_checked(name))
        if bound is None:
            bound = self._variables.hosts(name)
        return bound or ()

    def values(self) -> list[str]:
        """Every value that there is, whether or not it can be had by a name: to be masked."""
        found = self._variables.values()
        for name in self._files():
            with contextlib.suppress(Invalid):
                found += filter(None, [self._from_file(name)])
        return list(dict.fromkeys(found))

    def mark(self) -> object:
        """Another one after every change."""
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            return tuple(sorted((entry.name, *_version(entry)) for entry in entries))
        return None

    def known(self) -> list[Known]:
        return [self._known(name) for name in self._names()]

    def put(self, name: str, value: bytes, hosts: Iterable[str] | None = None) -> None:
        """Whole or not at all. Without `hosts` it stays bound as it was; none at all lets it go to any.

        Raises `Invalid` for a name or value that cannot be, or a binding to keep that cannot be read, OSError where
        the disk refuses.
        """
        text = check_value(_checked(name), value)
        for part in (self.directory.parent, self.directory):
            part.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_closed(self.directory, self.directory.stat())
        chosen = None if hosts is None else sorted(set(hosts))
        # Its hosts first: a crash in between must not leave a value that may go anywhere.
        if chosen:
            write_atomically(self._file(name + HOSTS), msgspec.json.encode(chosen))
        elif chosen is None:
            self._hosts_by_file(name)  # Raises now rather than at each request.
        write_atomically(self._file(name), text.encode() + b"\n")
        if chosen == []:
            self._file(name + HOSTS).unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Raises `ContextMissing` where there is no file of that name, `Invalid` for one of the environment."""
        try:
            self._file(_checked(name)).unlink()
        except FileNotFoundError:
            if self._variables.read(name) is not None:
                raise Invalid(
                    f"secret {name!r} is of the environment: unset {self._variables.variable(name)}"
                ) from None
            raise ContextMissing(f"this node has no secret {name!r}") from None
        self._file(name + HOSTS).unlink(missing_ok=True)
        sync_directory(self.directory)

    def _file(self, name: str) -> Path:
        return self.directory / name

    def _from_file(self, name: str) -> str | None:
        raw = self._content(_checked(name))
        return None if raw is None else check_value(name, raw)

    def _missing(self, name: str) -> str:
        words = f"this node has no secret {name!r}: give it with `cloche secret set {name}`"
        other = canonical(name)
        if other != name and other in self._variables.names():
            words += f"; {self._variables.variable(other)} is the secret {other!r}"
        return words

    def _hosts_by_file(self, name: str) -> tuple[str, ...] | None:
        raw = self._content(name + HOSTS)
        if raw is None:
            return None
        with contextlib.suppress(msgspec.MsgspecError):
            if hosts := msgspec.json.decode(raw, type=tuple[str, ...]):
                return hosts
        raise Invalid(f"{self._file(name + HOSTS)} is not a list of hosts")

    def _content(self, name: str) -> bytes | None:
        try:
            self._check_closed(self.directory, self.directory.stat())
            with open(self._file(name), "rb") as file:  # noqa: PTH123  looked at while it is open
                self._check_closed(self._file(name), os.fstat(file.fileno()))
                return file.read(MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Invalid(f"{self._file(name)} cannot be read: {error.strerror}") from None

    def _check_closed(self, path: Path, found: os.stat_result) -> None:
        if found.st_mode & OTHERS:
            mode = "700" if stat.S_ISDIR(found.st_mode) else "600"
            raise Invalid(f"{path} is open to others than its owner: chmod {mode} {path}")

    def _files(self) -> list[str]:
        with contextlib.suppress(OSError):
            return [name for name in os.listdir(self.directory) if is_token(name)]  # noqa: PTH208  only names
        return []

    def _names(self) -> list[str]:
        return sorted({*self._files(), *self._variables.names()})

    def _known(self, name: str) -> Known:
        hosts: tuple[str, ...] = ()
        trouble = None
        try:
            self.read(name)
            hosts = self.hosts(name)
        except (ContextMissing, Invalid) as error:
            trouble = error.message
        try:
            changed = datetime.datetime.fromtimestamp(self._file(name).stat().st_mtime, datetime.UTC)
        except OSError:
            origin = f"environment ({self._variables.variable(name)})"
            return Known(name=name, origin=origin, hosts=hosts, trouble=trouble)
        return Known(name=name, origin="file", changed_at=changed, hosts=hosts, trouble=trouble)


def _checked(name: str) -> str:
    if not is_token(name):
        raise Invalid(f"{name[:80]!r} is no name of a secret: letters, digits, '_' and '-', 64 at most")
    return name


def _version(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    try:
        found = entry.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ctime_ns, found.st_ino, found.st_size)
