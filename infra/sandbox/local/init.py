"""The first process of a local sandbox: starts commands on request, reaps every child, kills whole trees.

Runs as PID 1 of the sandbox's namespaces: `python3 -I -S -B init.py --socket-fd N --instance NONCE`,
where N is a bound unix stream socket that does not listen yet. It listens itself, so SO_PEERCRED of a connection
names this very process. `--grace S` is how long SIGTERM from outside waits before SIGKILL (5). Standard library
only, with `init_tree.py` beside it: nothing else is sure to exist inside.

Frames both ways: 4 bytes of big-endian length and UTF-8 JSON, descriptors attached to a frame's first byte.
Everything that a command can do is hostile; what arrives on the socket is from the owner but may be broken.
"""
# ruff: noqa: PTH100, PTH120, PTH208

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from infra.sandbox.local import init_tree as processes
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import init_tree as processes

MAX_FRAME = 4 * 1024 * 1024
MAX_OUTGOING = 2 * MAX_FRAME
KILL_ROUNDS = 30
TICK_S = 0.05
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
SIGINFO_SIZE, SIGINFO_PID_AT = 128, 12

libc = ctypes.CDLL(None, use_errno=True)


def close_all(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.incoming = bytearray()
        self.fds: list[int] = []
        self.outgoing: list[tuple[bytes, list[int]]] = []
        self.command: processes.Command | None = None

    def receive(self) -> bool:
        """Takes what is there. False when the peer is gone."""
        data, ancillary, flags, _ = self.sock.recvmsg(65_536, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.fds += struct.unpack(f"{len(payload) // 4}i", payload[: len(payload) // 4 * 4])
        if flags & socket.MSG_CTRUNC or len(self.fds) > 3:
            raise ValueError("too many descriptors, or no room for them")
        self.incoming += data
        return bool(data)

    def next_request(self) -> dict[str, object] | None:
        """The next whole request that has come. Raises ValueError for anything that is none."""
        size = int.from_bytes(self.incoming[:4], "big")
        if size > MAX_FRAME:
            raise ValueError("frame too large")
        if len(self.incoming) < 4 + size:
            return None
        request = json.loads(self.incoming[4 : 4 + size])
        del self.incoming[: 4 + size]
        if not isinstance(request, dict):
            raise TypeError("object expected")
        return request

    def queue(self, message: dict[str, object], fds: list[int]) -> None:
        body = json.dumps(message).encode()
        self.outgoing.append((len(body).to_bytes(4, "big") + body, fds))
        if sum(len(data) for data, _ in self.outgoing) > MAX_OUTGOING:
            raise ValueError("the peer does not read")

    def flush(self) -> bool:
        """Sends what the peer takes now. True when nothing is left."""
        while self.outgoing:
            data, fds = self.outgoing[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
            try:
                sent = self.sock.sendmsg([data], rights)
            except BlockingIOError:
                return False
            close_all(fds)
            self.outgoing[0] = (data[sent:], [])
            if sent == len(data):
                del self.outgoing[0]
        return True

    def close(self) -> None:
        self.sock.close()
        close_all(self.fds)
        for _, fds in self.outgoing:
            close_all(fds)


class Init:
    def __init__(self, listener: socket.socket, options: dict[str, str]) -> None:
        self.options = options
        self.listener = listener
        self.poll = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.connections: dict[int, Connection] = {}
        self.children: dict[int, Connection] = {}
        self.unfinished: list[processes.Command] = []
        self.accepting = True
        self.kill_at: float | None = None
        self.soft_nofile, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.signals = open_signalfd(signal.SIGCHLD, signal.SIGTERM)
        self.watch(self.signals, self.on_signal)
        self.watch(listener.fileno(), self.on_connect)

    def watch(self, fd: int, handler: Callable[[int], None]) -> None:
        self.poll.register(fd, select.EPOLLIN)
        self.handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        self.poll.unregister(fd)
        del self.handlers[fd]

    def run(self) -> None:
        while True:
            try:
                if self.kill_at is not None and not processes.living():
                    self.reap()
                    return
                self.step()
            except (OSError, MemoryError):
                # The machine is out of something. Init must outlive that: its end is the end of the sandbox.
                time.sleep(TICK_S)

    def step(self) -> None:
        busy = self.unfinished or not self.accepting or self.kill_at is not None
        for fd, events in self.poll.poll(TICK_S if busy else None):
            if fd in self.handlers:
                self.handlers[fd](events)
        if busy:
            self.tick()

    def tick(self) -> None:
        if not self.accepting:
            self.watch(self.listener.fileno(), self.on_connect)
            self.accepting = True
        unfinished, self.unfinished = self.unfinished, []
        for command in unfinished:
            self.signal_tree(command, signal.SIGKILL)
        if self.kill_at is not None and time.monotonic() > self.kill_at:
            self.signal_everyone(signal.SIGKILL)

    def on_signal(self, _events: int) -> None:
        info = os.read(self.signals, SIGINFO_SIZE)
        signum = int.from_bytes(info[:4], sys.byteorder)
        sender = int.from_bytes(info[SIGINFO_PID_AT : SIGINFO_PID_AT + 4], sys.byteorder)
        # Nobody inside may end the sandbox: to PID 1 a sender from outside its namespace has no number.
        if signum == signal.SIGTERM and (sender == 0 or os.getpid() != 1) and self.kill_at is None:
            self.kill_at = time.monotonic() + float(self.options.get("--grace", "5"))
            self.signal_everyone(signal.SIGTERM)
            self.signal_everyone(signal.SIGCONT)
        self.reap()

    def reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            connection = self.children.pop(pid, None)
            if connection is not None and connection.command is not None:
                connection.command.ended = processes.ending(status, usage)
                self.guarded(connection, self.announce)

    def announce(self, connection: Connection) -> None:
        command = connection.command
        if command is not None and command.ended is not None and connection.sock.fileno() >= 0:
            self.reply(connection, command.ended)

    def on_connect(self, _events: int) -> None:
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError:
            # Out of descriptors or memory: a listener that stays readable would spin, so look again later.
            self.unwatch(self.listener.fileno())
            self.accepting = False
            return
        sock.setblocking(False)
        connection = self.connections[sock.fileno()] = Connection(sock)
        self.watch(sock.fileno(), lambda events: self.guarded(connection, self.serve, events))

    def guarded(self, connection: Connection, act: Callable[..., None], *args: object) -> None:
        """A broken peer or a lack of resources costs that connection, never init."""
        try:
            act(connection, *args)
        except BlockingIOError:
            return
        except (OSError, ValueError, TypeError, MemoryError, RecursionError):
            self.close(connection)

    def serve(self, connection: Connection, events: int) -> None:
        if events & select.EPOLLOUT and connection.flush():
            self.poll.modify(connection.sock.fileno(), select.EPOLLIN)
        if events & ~select.EPOLLOUT:
            if not connection.receive():
                self.close(connection)
                return
            while (request := connection.next_request()) is not None:
                self.answer(connection, request)

    def reply(self, connection: Connection, message: dict[str, object], fds: list[int] | None = None) -> None:
        connection.queue(message, [] if fds is None else fds)
        if not connection.flush():
            self.poll.modify(connection.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def close(self, connection: Connection) -> None:
        number = connection.sock.fileno()
        if number < 0:
            return
        self.unwatch(number)
        del self.connections[number]
        connection.close()
        if connection.command is not None and connection.command.ended is None:
            self.signal_tree(connection.command, signal.SIGKILL)

    def answer(self, connection: Connection, request: dict[str, object]) -> None:
        op = request.get("op")
        if op == "start" and connection.command is None:
            self.start(connection, processes.Plan(request))
        elif op == "signal" and connection.command is not None:
            self.reply(connection, {"ok": True, "signalled": self.signal(connection.command, request)})
        elif op == "hello":
            self.reply(connection, {"ok": True, "instance": self.options["--instance"], "pid": os.getpid()})
        elif op in ("freeze", "thaw"):
            signum = signal.SIGSTOP if op == "freeze" else signal.SIGCONT
            self.reply(connection, {"ok": True, "signalled": self.signal_everyone(signum)})
        elif op == "processes":
            self.reply(connection, {"ok": True, "processes": self.list_processes()})
        else:
            raise ValueError("unknown request")

    def start(self, connection: Connection, plan: processes.Plan) -> None:
        if len(connection.fds) != (3 if plan.size is None else 0):
            raise ValueError("three descriptors expected, or none for a pty")
        try:
            if plan.instance not in (None, self.options["--instance"]):
                self.reply(connection, {"ok": False, "code": "WRONG_INSTANCE", "error": "another instance answers"})
                return
            if self.kill_at is not None or plan.exec_id in {each.exec_id for each in self.commands()}:
                raise OSError("the sandbox is stopping, or this exec is there already")
            self.spawn(connection, plan)
        except processes.Refused as refused:
            self.reply(connection, {"ok": False, "code": refused.code, "error": refused.message})
        except (OSError, MemoryError) as error:
            self.reply(connection, {"ok": False, "code": "FAILED", "error": str(error)})
        finally:
            close_all(connection.fds)

    def spawn(self, connection: Connection, plan: processes.Plan) -> None:
        master: list[int] = []
        slave: list[int] = []
        try:
            if plan.size is not None:
                terminal, line = plan.open_pty()
                master.append(terminal)
                slave.append(line)
            pid = plan.spawn(slave or connection.fds, self.soft_nofile)
        except (OSError, MemoryError, processes.Refused):
            close_all(master)
            raise
        finally:
            close_all(slave)
        for command in self.commands():
            command.session = -1 if command.session == pid else command.session
        connection.command = processes.Command(plan.exec_id, pid)
        self.children[pid] = connection
        self.reply(connection, {"ok": True, "pid": pid}, master)
        processes.prefer_for_oom(pid)

    def commands(self) -> list[processes.Command]:
        return [each.command for each in self.connections.values() if each.command is not None]

    def signal(self, command: processes.Command, request: dict[str, object]) -> int:
        signum = processes.integer(request.get("signum"), 1, 64)
        scope = request.get("scope", "tree")
        if scope in ("tree", "rest"):
            return self.signal_tree(command, signum, spare=command.pid if scope == "rest" else None)
        return int(command.ended is None and processes.send_signal(command.pid, signum))

    def tree(self, command: processes.Command, table: dict[int, processes.Process]) -> set[int]:
        return command.tree(table, {pid for pid, each in self.children.items() if each.command is not command})

    def signal_tree(self, command: processes.Command, signum: int, spare: int | None = None) -> int:
        """Signals every process of the command but `spare`; SIGKILL again and again until no new one is found."""
        reached: set[tuple[int, int]] = set()
        for _ in range(KILL_ROUNDS if signum == signal.SIGKILL else 1):
            try:
                table = processes.living()
            except OSError:
                break
            found = {(pid, table[pid].started) for pid in self.tree(command, table) if pid != spare} - reached
            for pid, _started in found:
                processes.send_signal(pid, signum)
            reached |= found
            if not found:
                return len(reached)
        if signum == signal.SIGKILL and spare is None:
            self.unfinished.append(command)
        return len(reached)

    def signal_everyone(self, signum: int) -> int:
        return sum(processes.send_signal(pid, signum) for pid in processes.living())

    def list_processes(self) -> list[dict[str, object]]:
        table = processes.living()
        owners = {pid: command.exec_id for command in self.commands() for pid in self.tree(command, table)}
        return [{"pid": pid, "exec": owners.get(pid), "argv0": each.name()} for pid, each in table.items()]


def open_signalfd(*signals: signal.Signals) -> int:
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    mask = (ctypes.c_uint64 * 16)(sum(1 << (signum - 1) for signum in signals))
    fd = int(libc.signalfd(-1, ctypes.byref(mask), os.O_CLOEXEC | os.O_NONBLOCK))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return fd


def harden(socket_fd: int) -> None:
    """Nobody of the same uid may look into init or take descriptors from it; nothing leaks into commands."""
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 or libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != socket_fd:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
    os.set_inheritable(socket_fd, False)
    os.umask(0o022)
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(signum, signal.SIG_IGN if signum in processes.IGNORED_BY_INIT else signal.SIG_DFL)


def main(argv: list[str]) -> None:
    options = dict(zip(argv[::2], argv[1::2], strict=True))
    socket_fd = int(options["--socket-fd"])
    harden(socket_fd)
    listener = socket.socket(fileno=socket_fd)
    listener.setblocking(False)
    listener.listen(128)
    Init(listener, options).run()


if __name__ == "__main__":
    main(sys.argv[1:])
