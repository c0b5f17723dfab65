"""The keeper's socket: owner only, many clients, many requests in flight."""

import asyncio
import contextlib
import logging
import os
import socket
import struct
from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import ClocheError, Conflict, Invalid, Unavailable
from infra.keeper import protocol
from infra.keeper.execution import written_after_end
from infra.keeper.keeper import Keeper
from infra.unix_socket import short_address

SLOW = protocol.Wait | protocol.Start | protocol.Prepare | protocol.Signal | protocol.Resize | protocol.Forget
IN_FLIGHT = 1024
"""Slow requests of one client; beyond, its next ones wait in the socket."""

log = logging.getLogger("cloche.keeper")
_decoder = msgspec.msgpack.Decoder(protocol.AnyRequest)


def listen(path: Path) -> socket.socket:
    """Raises OSError where the directory is not there or not ours."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with short_address(path) as address:
            listener.bind(address)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


class KeeperServer:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._clients: set[asyncio.Task[None]] = set()
        self.stop = asyncio.Event()

    async def serve(self, listener: socket.socket) -> None:
        """Until `stop` is set."""
        server = await asyncio.start_unix_server(self._accept, sock=listener)
        try:
            await self.stop.wait()
        finally:
            server.close()
            for client in self._clients:
                client.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            if _uid_of_peer(writer) == os.getuid():
                await _Client(self._keeper, self.stop, reader, writer).serve()
        except (ValueError, ConnectionError) as error:
            log.warning("a client is cut off: %s", error)
        except asyncio.CancelledError:
            return
        finally:
            self._clients.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def _uid_of_peer(writer: asyncio.StreamWriter) -> int:
    credentials = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)


class _Client:
    def __init__(
        self, keeper: Keeper, stop: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._keeper = keeper
        self._stop = stop
        self._reader = reader
        self._writer = writer
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def serve(self) -> None:
        """Until the client leaves. Raises ValueError for what is no request."""
        slow: set[asyncio.Task[None]] = set()
        try:
            while (message := await protocol.read_message(self._reader)) is not None:
                request = _decoder.decode(message)
                if isinstance(request, SLOW):
                    await self._slots.acquire()
                    task = asyncio.create_task(self._answer(request))
                    slow.add(task)
                    task.add_done_callback(slow.discard)
                    task.add_done_callback(lambda _: self._slots.release())
                else:
                    await self._answer(request)
        finally:
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    async def _answer(self, request: protocol.AnyRequest) -> None:
        try:
            result = await self._do(request)
        except ClocheError as error:
            reply = protocol.Reply(id=request.id, failure=error.failure())
        except OSError as error:
            reply = protocol.Reply(id=request.id, failure=Unavailable(f"keeper: {error}").failure())
        except Exception:
            # A fault of ours: a client that is cut off can connect again, one without an answer waits for ever.
            log.exception("the request %s failed", type(request).__name__)
            self._writer.transport.abort()
            return
        else:
            reply = protocol.Reply(id=request.id, result=msgspec.Raw(msgspec.msgpack.encode(result)))
        with contextlib.suppress(ConnectionError):
            self._writer.write(protocol.framed(reply))
            await self._writer.drain()

    async def _do(self, request: protocol.AnyRequest) -> Struct | list[protocol.ExecInfo]:
        keeper = self._keeper
        match request:
            case protocol.Hello():
                return keeper.greeting()
            case protocol.Start():
                begun = await keeper.start(request)
                meta = keeper.record(request.exec).meta
                return protocol.Started(already=not begun, begun_ns=meta.begun_ns, age_s=meta.age_s)
            case protocol.Write():
                return self._write(request)
            case protocol.Signal():
                execution = keeper.execution(request.exec)
                return protocol.Signalled(count=await execution.signal(request) if execution else 0)
            case protocol.Prepare():
                await keeper.prepare(request.target, request.env)
            case protocol.Resize():
                await self._resize(request)
            case protocol.List():
                return keeper.list()
            case protocol.Info():
                return keeper.record(request.exec).info()
            case protocol.Wait():
                return await keeper.record(request.exec).wait_beyond(request.position)
            case protocol.Confirm():
                keeper.confirm(request.exec, request.position)
            case protocol.Forget():
                await keeper.forget(request.exec)
            case protocol.Shutdown():
                self._shutdown(force=request.force)
        return protocol.Done()

    def _write(self, request: protocol.Write) -> protocol.Written:
        execution = self._keeper.execution(request.exec)
        if execution is None:
            total = self._keeper.record(request.exec).totals.stdin
            return written_after_end(total, request)
        return execution.write(request)

    async def _resize(self, request: protocol.Resize) -> None:
        execution = self._keeper.execution(request.exec)
        if execution is None:
            raise Invalid(f"{request.exec} has ended")
        await execution.resize(request)

    def _shutdown(self, *, force: bool) -> None:
        if self._keeper.unfinished and not force:
            raise Conflict(f"{self._keeper.unfinished} commands are running", count=str(self._keeper.unfinished))
        self._stop.set()
