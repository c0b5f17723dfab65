"""The embedded nats-server: started or adopted, watched over, started again when it dies."""

import asyncio
import contextlib
import json
import logging
import os
import secrets as randomness
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from contracts.errors import Invalid, Unavailable
from infra.bus.connection import Bus, connect
from infra.embedded import config, process, secrets, store, users, writing
from infra.embedded.process import Identity
from infra.embedded.realm import Realm
from infra.ports import free_port, is_free
from infra.realms import served_realms
from infra.settings import Durability, Settings

logger = logging.getLogger(__name__)

READY_S = 15.0
STOP_GRACE_S = 10.0
TRY_AGAIN_S = 0.05
POLL_S = 0.005
RESTART_PAUSE_S = 0.05
LONGEST_RESTART_PAUSE_S = 5.0
LOOK_S = 5.0
"""How often a server is asked whether it still stores."""


class EmbeddedServer:
    """One server per data directory, on loopback, outliving the process that started it.

    `start` adopts the one that is running. As a context manager it also watches over it: a server that dies is
    started again on the same port. Leaving the context stops the server unless `keep` is set.
    """

    def __init__(
        self,
        data: Path,
        *,
        nodes: Iterable[str] = ("local",),
        realms: Iterable[Realm] = (Realm(),),
        durability: Durability = Durability.DISK,
        port: int = 0,
        keep: bool = False,
        restoring: bool = False,
    ) -> None:
        self.data = data
        self.port = port
        self._fixed_port = port != 0
        self._nodes = tuple(nodes)
        self._realms = tuple(realms)
        self._durability = durability
        self._keep = keep
        self._restoring = restoring
        self._name = ""
        self._passwords: dict[str, str] = {}
        self._identity: Identity | None = None
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, settings: Settings, *, keep: bool = False, restoring: bool = False) -> Self:
        return cls(
            settings.data,
            nodes=settings.all_nodes,
            realms=served_realms(settings),
            durability=settings.durability,
            port=settings.port,
            keep=keep,
            restoring=restoring,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        self._watching = asyncio.create_task(self.supervise())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if not self._keep:
            await self.stop()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """0 before `start`."""
        return self._identity.pid if self._identity else 0

    def password(self, user: str, realm: str = "") -> str:
        return self._passwords[users.login_name(realm, user)]

    async def connect(self, user: str, name: str = "", *, realm: str = "") -> Bus:
        """Raises `Unavailable` if the server does not answer."""
        login = users.login_name(realm, user)
        return await connect(self.url, login, self.password(user, realm), name or login, patience_s=READY_S)

    async def start(self) -> None:
        """Start the server, or adopt the running one; returns when it answers.

        Raises `Unavailable` (directory in use by a server that is not ours, port taken, disk full, no binary, the
        server ended: with its last words), `Invalid` (directory of another user or of a newer version, or with a part
        of a backup, unless it is to be put back).
        """
        store.prepare(self.data)
        if not self._restoring:
            store.refuse_half(self.data)
        self._passwords = secrets.ensure(secrets.directory(self.data), self._realms)
        deadline = asyncio.get_running_loop().time() + READY_S
        while True:
            lock = store.lock(self.data)
            if lock is None:
                if await self._adopt(deadline):
                    return
                continue
            try:
                await self._launch(lock)
            finally:
                os.close(lock)
            return

    async def stop(self) -> None:
        """End the server, whoever started it. Does nothing if none runs."""
        if self._identity:
            await process.end(self._identity, grace_s=STOP_GRACE_S)
            self._identity = None

    async def supervise(self) -> None:
        """Starts the server again each time that it ends; runs until cancelled."""
        pause = RESTART_PAUSE_S
        while True:
            if self._identity:
                await self._until_end(self._identity)
                logger.error("nats-server ended; starting it again on port %d", self.port)
            try:
                await self.start()
                pause = RESTART_PAUSE_S
            except (Unavailable, Invalid) as error:
                self._identity = None
                logger.error("nats-server does not start: %s", error.message)  # noqa: TRY400  the message says it all
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_RESTART_PAUSE_S)

    async def _until_end(self, identity: Identity) -> None:
        """Or until it has to be ended, because it stores nothing more."""
        ended = asyncio.create_task(process.wait_end(identity))
        failing = asyncio.create_task(self._until_stored_again(identity))
        try:
            await asyncio.wait([ended, failing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ended, failing):
                task.cancel()
            await asyncio.gather(ended, failing, return_exceptions=True)

    async def _until_stored_again(self, identity: Identity) -> None:
        """Back when a server whose disk was full has been ended: once there is room again it may be started anew."""
        told = ""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                async with await self.connect(users.SYSTEM) as system:
                    words = await writing.failure(system) or ""
            except Unavailable:
                continue
            if words and words != told:
                logger.error("nats-server stores nothing more, and whoever publishes waits: %s", words)
            told = words
            if words and writing.has_room(self.data):
                await process.end(identity, grace_s=STOP_GRACE_S)
                return

    async def _adopt(self, deadline: float) -> bool:
        """Somebody holds the lock: our server, or one who is about to start it. False = look again."""
        record = store.read_record(self.data)
        try:
            if record is not None and (identity := _identity_of(record, self.data)):
                return await self._recognise(record, identity)
            raise Unavailable(f"{self.data} is in use by a server that left no record")
        except Unavailable as error:
            if asyncio.get_running_loop().time() > deadline:
                raise Unavailable(f"{self.data} is in use, and not by a server of ours: {error.message}") from error
            await asyncio.sleep(TRY_AGAIN_S)
            return False

    async def _recognise(self, record: store.Record, identity: Identity) -> bool:
        """False if it is ours but was set up for other nodes or by another version: then it has been stopped."""
        if not identity.alive:
            raise Unavailable(f"process {identity.pid} is not the server that was recorded")
        if self._fixed_port and record.port != self.port:
            raise Invalid(f"{self.data} has a server on port {record.port}: stop it first, or ask for that port")
        self.port, self._name = record.port, record.name
        await self._verify(patience_s=1.0)
        if self._config_file.read_text() != self._config():
            logger.warning("nats-server was set up otherwise; starting it anew")
            await process.end(identity, grace_s=STOP_GRACE_S)
            return False
        self._identity = identity
        return True

    async def _launch(self, lock: int) -> None:
        previous = store.read_record(self.data)
        self._name = f"cloche-{randomness.token_hex(8)}"
        self.port = _free_port(self.port or (previous.port if previous else 0), insist=self._fixed_port)
        file = self._config_file
        store.write(file, self._config())
        output = self.data / "nats" / "server.out"
        output.unlink(missing_ok=True)
        store.pid_file(self.data).unlink(missing_ok=True)
        self._note(Identity(0, 0))
        try:
            identity = process.spawn(file, output, lock)
        except process.EndedAtOnce:
            raise Unavailable(self._last_words()) from None
        self._note(identity)
        try:
            await self._ready(identity)
        except BaseException:
            await process.end(identity, grace_s=STOP_GRACE_S)
            raise
        self._identity = identity

    @property
    def _config_file(self) -> Path:
        return self.data / "nats" / "nats.conf"

    def _config(self) -> str:
        return config.render(
            data=self.data,
            server_name=self._name,
            port=self.port,
            durability=self._durability,
            passwords=self._passwords,
            nodes=self._nodes,
            realms=self._realms,
        )

    def _note(self, identity: Identity) -> None:
        record = store.Record(name=self._name, port=self.port, pid=identity.pid, started=identity.started)
        store.write(store.record_file(self.data), json.dumps({n: getattr(record, n) for n in record.__struct_fields__}))

    async def _ready(self, identity: Identity) -> None:
        ended = asyncio.create_task(process.wait_end(identity))
        answering = asyncio.create_task(self._answers())
        try:
            await asyncio.wait([ended, answering], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise Unavailable(self._last_words())
            answering.result()
        except TimeoutError:
            raise Unavailable(f"nats-server does not answer within {READY_S:g} s") from None
        finally:
            for task in (ended, answering):
                task.cancel()
            await asyncio.gather(ended, answering, return_exceptions=True)

    async def _answers(self) -> None:
        async with asyncio.timeout(READY_S):
            while not await _listens(self.port):  # noqa: ASYNC110  a port tells nobody that it opened
                await asyncio.sleep(POLL_S)
        await self._verify(patience_s=READY_S)

    def _last_words(self) -> str:
        words = store.log_tail(self.data)
        if "address already in use" in words:
            return f"port {self.port} is taken: choose another with CLOCHE_PORT, or 0 for any"
        if "no space left" in words:
            return f"{self.data}: the disk is full"
        return f"nats-server ended at start; its last words:\n{words}"

    async def _verify(self, *, patience_s: float) -> None:
        """It answers to our password, has the name that we gave it, and keeps the durability that was asked for."""
        bus = await connect(self.url, users.SYSTEM, self.password(users.SYSTEM), "cloche", patience_s=patience_s)
        async with bus:
            reply = await bus.request("$SYS.REQ.SERVER.PING.JSZ", b'{"config": true}')
        answer = json.loads(reply.data)
        if answer["server"]["name"] != self._name:
            raise Unavailable(f"port {self.port} answers, but it is another server")
        always = bool(answer["data"]["config"].get("sync_always", False))
        if always != (self._durability == Durability.DISK):
            raise Invalid(
                f"the server of {self.data} runs with durability {'disk' if always else 'process'}:"
                f" stop it before asking for {self._durability}"
            )


def _identity_of(record: store.Record, data: Path) -> Identity | None:
    """The server's own word stands in where somebody died between starting it and noting it."""
    if record.pid:
        return Identity(record.pid, record.started)
    try:
        return process.identify(int(store.pid_file(data).read_text()))
    except (OSError, ValueError):
        return None


def _free_port(wanted: int, *, insist: bool) -> int:
    """Raises `Unavailable` if the port that somebody insists on is taken."""
    if wanted and is_free(wanted):
        return wanted
    if insist:
        raise Unavailable(f"port {wanted} is taken: choose another with CLOCHE_PORT, or 0 for any")
    try:
        return free_port()
    except OSError as error:
        raise Unavailable(str(error)) from error


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
