"""Hosts of a network that only the test has: namespaces around a switch, with no way out of it."""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests import forking

PREFIX = "clonet"
NETWORK = "10.231.0"
"""Seen inside the namespaces alone: nothing outside has an address in it."""
CLONE_NEWNET = 0x40000000
NAMED = Path("/run/netns")


class Network:
    """A switch in a namespace of its own, and hosts that are plugged into it. Names carry the run's process id."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self.hosts = hosts
        self._run = f"{PREFIX}{os.getpid()}"
        self._switch = f"{self._run}-switch"

    def __enter__(self) -> Self:
        sweep()
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in (*map(self.namespace, self.hosts), self._switch):
            _delete(name)

    def address(self, host: str) -> str:
        return f"{NETWORK}.{self.hosts.index(host) + 1}"

    def namespace(self, host: str) -> str:
        return f"{self._run}-{host}"

    def cut(self, host: str) -> None:
        """As if its cable were pulled: nobody is told."""
        _ip("-n", self._switch, "link", "set", f"p-{host}", "down")

    def heal(self, host: str) -> None:
        _ip("-n", self._switch, "link", "set", f"p-{host}", "up")

    def run_on(self, host: str) -> list[str]:
        """The command that runs another there."""
        return ["ip", "netns", "exec", self.namespace(host)]

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread, and what it starts, is on the host."""
        forking.be_ready()
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            enter(self.namespace(host))
            yield
        finally:
            _setns(before)
            os.close(before)

    def _build(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "name", "switch", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "switch", "up")
        for host in self.hosts:
            here = self.namespace(host)
            _ip("netns", "add", here)
            port = ("link", "add", f"p-{host}", "type", "veth", "peer", "name", "eth0", "netns", here)
            _ip("-n", self._switch, *port)
            _ip("-n", self._switch, "link", "set", f"p-{host}", "master", "switch", "up")
            _ip("-n", here, "link", "set", "lo", "up")
            _ip("-n", here, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip("-n", here, "link", "set", "eth0", "up")


def enter(namespace: str) -> None:
    """For the calling thread."""
    descriptor = os.open(NAMED / namespace, os.O_RDONLY)
    try:
        _setns(descriptor)
    finally:
        os.close(descriptor)


def sweep() -> None:
    """What runs left that were killed."""
    for path in NAMED.glob(f"{PREFIX}*-*") if NAMED.is_dir() else ():
        run = path.name.removeprefix(PREFIX).partition("-")[0]
        if run.isdigit() and not Path(f"/proc/{run}").exists():
            _delete(path.name)


def _setns(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _ip(*argv: str) -> None:
    done = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(argv)}: {done.stderr}"


def _delete(namespace: str) -> None:
    subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
