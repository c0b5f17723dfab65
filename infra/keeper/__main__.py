"""`python -m infra.keeper --data DIR [--detach] [--backlog-bytes N]`: the keeper of a data directory."""

import argparse
import asyncio
import fcntl
import logging
import os
import resource
import secrets
import signal
import sys
from pathlib import Path

import uvloop

from infra.keeper.keeper import BACKLOG_BYTES, Keeper
from infra.keeper.layout import Layout
from infra.keeper.server import KeeperServer, listen

ALREADY_RUNNING = 3

log = logging.getLogger("cloche.keeper")


def main() -> int:
    options = _options()
    layout = Layout.of(options.data.absolute())
    layout.prepare()
    ready = _detach(layout) if options.detach else None
    lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say(ready, f"another keeper holds {layout.lock}")
        return ALREADY_RUNNING
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(_serve(layout, options.backlog_bytes, ready))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m infra.keeper", description="Holds commands and their output.")
    parser.add_argument("--data", type=Path, required=True, help="the data directory")
    parser.add_argument("--detach", action="store_true", help="return once it listens, and go on in the background")
    parser.add_argument("--backlog-bytes", type=int, default=BACKLOG_BYTES, help="unconfirmed output per command")
    return parser.parse_args()


def _detach(layout: Layout) -> int:
    """Goes on in a session of its own. The process that was called waits until this one listens or fails."""
    reading, writing = os.pipe()
    if os.fork() != 0:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode()
        sys.stderr.write(said)
        os._exit(1 if said else 0)
    os.close(reading)
    os.setsid()
    output = os.open(layout.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    return writing


def _say(ready: int | None, words: str) -> None:
    """Tells the caller how it went: no words = well."""
    if words:
        sys.stderr.write(f"{words}\n")
    if ready is not None:
        os.write(ready, words.encode())
        os.close(ready)


async def _serve(layout: Layout, backlog_limit: int, ready: int | None) -> None:
    keeper = Keeper(layout, secrets.token_hex(16), backlog_limit)
    keeper.recover()
    server = KeeperServer(keeper)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _on_sigterm, keeper, server)
    listener = listen(layout.socket)
    _say(ready, "")
    log.info("keeper %s listens, pid %d", keeper.instance, os.getpid())
    try:
        await server.serve(listener)
    finally:
        await keeper.aclose()
        layout.socket.unlink(missing_ok=True)


def _on_sigterm(keeper: Keeper, server: KeeperServer) -> None:
    if keeper.unfinished:
        log.warning("SIGTERM, but %d commands run: going on", keeper.unfinished)
    else:
        server.stop.set()


if __name__ == "__main__":
    sys.exit(main())
