"""The first process of a container: it keeps it up, and needs nothing of the image, not even a shell.

It waits for SIGTERM, passes it on to everything else in the container, and ends when nothing else is left. So a stop
asks every command, and what does not listen is killed with the container. It ignores SIGCHLD, so the kernel reaps the
orphans that it adopts. Being the first, it cannot be killed from inside: not even by `kill -9 -1`. Anywhere
else it ends at once: started by hand, it would otherwise pass SIGTERM on to every process of the machine.
"""

import hashlib
import secrets
import struct
from pathlib import Path

from contracts.errors import SandboxCreationFailed
from infra.durable import write_atomically

INSIDE = "/.cloche-idle"
_LOAD_AT = 0x400000
_HEADERS = 64 + 56

_X86_64 = (
    "b8 27 00 00 00",  # mov eax, 39           getpid()
    "0f 05",  # syscall
    "ff c8",  # dec eax
    "74 0c",  # jz first
    "b8 3c 00 00 00",  # mov eax, 60           exit(1)
    "bf 01 00 00 00",  # mov edi, 1
    "0f 05",  # syscall
    "6a 00 6a 00 6a 00 6a 01",  # first: push 0, 0, 0, 1    an action: SIG_IGN
    "b8 0d 00 00 00",  # mov eax, 13           rt_sigaction(SIGCHLD, action, 0, 8)
    "bf 11 00 00 00",  # mov edi, 17
    "48 89 e6",  # mov rsi, rsp
    "31 d2",  # xor edx, edx
    "41 ba 08 00 00 00",  # mov r10d, 8
    "0f 05",  # syscall
    "68 00 40 00 00",  # push 0x4000           a set of signals: SIGTERM
    "49 89 e0",  # mov r8, rsp
    "b8 0e 00 00 00",  # mov eax, 14           rt_sigprocmask(SIG_BLOCK, set, 0, 8)
    "31 ff",  # xor edi, edi
    "4c 89 c6",  # mov rsi, r8
    "31 d2",  # xor edx, edx
    "41 ba 08 00 00 00",  # mov r10d, 8
    "0f 05",  # syscall
    "b8 80 00 00 00",  # wait: mov eax, 128    rt_sigtimedwait(set, 0, 0, 8)
    "4c 89 c7",  # mov rdi, r8
    "31 f6",  # xor esi, esi
    "31 d2",  # xor edx, edx
    "41 ba 08 00 00 00",  # mov r10d, 8
    "0f 05",  # syscall
    "83 f8 0f",  # cmp eax, 15
    "75 e7",  # jne wait
    "b8 3e 00 00 00",  # mov eax, 62           kill(-1, SIGTERM)
    "48 c7 c7 ff ff ff ff",  # mov rdi, -1
    "be 0f 00 00 00",  # mov esi, 15
    "0f 05",  # syscall
    "68 80 96 98 00",  # push 10000000         a time: 0 s, 10 ms
    "6a 00",  # push 0
    "b8 3e 00 00 00",  # ask: mov eax, 62      kill(-1, 0)
    "48 c7 c7 ff ff ff ff",  # mov rdi, -1
    "31 f6",  # xor esi, esi
    "0f 05",  # syscall
    "85 c0",  # test eax, eax
    "78 0e",  # js end                         nobody is left
    "b8 23 00 00 00",  # mov eax, 35           nanosleep(time, 0)
    "48 89 e7",  # mov rdi, rsp
    "31 f6",  # xor esi, esi
    "0f 05",  # syscall
    "eb de",  # jmp ask
    "b8 3c 00 00 00",  # end: mov eax, 60      exit(0)
    "31 ff",  # xor edi, edi
    "0f 05",  # syscall
)

_AARCH64 = (
    "88 15 80 d2",  # mov x8, #172             getpid()
    "01 00 00 d4",  # svc #0
    "1f 04 00 f1",  # cmp x0, #1
    "80 00 00 54",  # b.eq first
    "20 00 80 d2",  # mov x0, #1               exit(1)
    "a8 0b 80 d2",  # mov x8, #93
    "01 00 00 d4",  # svc #0
    "29 00 80 d2",  # first: mov x9, #1        an action: SIG_IGN
    "e9 7f be a9",  # stp x9, xzr, [sp, #-32]!
    "ff 7f 01 a9",  # stp xzr, xzr, [sp, #16]
    "20 02 80 d2",  # mov x0, #17              rt_sigaction(SIGCHLD, action, 0, 8)
    "e1 03 00 91",  # mov x1, sp
    "02 00 80 d2",  # mov x2, #0
    "03 01 80 d2",  # mov x3, #8
    "c8 10 80 d2",  # mov x8, #134
    "01 00 00 d4",  # svc #0
    "09 00 88 d2",  # mov x9, #0x4000          a set of signals: SIGTERM
    "e9 0f 1f f8",  # str x9, [sp, #-16]!
    "f3 03 00 91",  # mov x19, sp
    "00 00 80 d2",  # mov x0, #0               rt_sigprocmask(SIG_BLOCK, set, 0, 8)
    "e1 03 13 aa",  # mov x1, x19
    "02 00 80 d2",  # mov x2, #0
    "03 01 80 d2",  # mov x3, #8
    "e8 10 80 d2",  # mov x8, #135
    "01 00 00 d4",  # svc #0
    "e0 03 13 aa",  # wait: mov x0, x19        rt_sigtimedwait(set, 0, 0, 8)
    "01 00 80 d2",  # mov x1, #0
    "02 00 80 d2",  # mov x2, #0
    "03 01 80 d2",  # mov x3, #8
    "28 11 80 d2",  # mov x8, #137
    "01 00 00 d4",  # svc #0
    "1f 3c 00 f1",  # cmp x0, #15
    "21 ff ff 54",  # b.ne wait
    "00 00 80 92",  # mov x0, #-1              kill(-1, SIGTERM)
    "e1 01 80 d2",  # mov x1, #15
    "28 10 80 d2",  # mov x8, #129
    "01 00 00 d4",  # svc #0
    "0a d0 92 d2",  # movz x10, #0x9680        a time: 0 s, 10 ms
    "0a 13 a0 f2",  # movk x10, #0x98, lsl #16
    "ff 2b bf a9",  # stp xzr, x10, [sp, #-16]!
    "00 00 80 92",  # ask: mov x0, #-1         kill(-1, 0)
    "01 00 80 d2",  # mov x1, #0
    "28 10 80 d2",  # mov x8, #129
    "01 00 00 d4",  # svc #0
    "c0 00 f8 b7",  # tbnz x0, #63, end        nobody is left
    "e0 03 00 91",  # mov x0, sp               nanosleep(time, 0)
    "01 00 80 d2",  # mov x1, #0
    "a8 0c 80 d2",  # mov x8, #101
    "01 00 00 d4",  # svc #0
    "f7 ff ff 17",  # b ask
    "00 00 80 d2",  # end: mov x0, #0          exit(0)
    "a8 0b 80 d2",  # mov x8, #93
    "01 00 00 d4",  # svc #0
)

_MACHINES = {"x86_64": (62, _X86_64), "aarch64": (183, _AARCH64)}
_SPELLINGS = {"amd64": "x86_64", "arm64": "aarch64"}


def idle_program(architecture: str) -> bytes:
    """An ELF executable of a few hundred bytes. Raises `SandboxCreationFailed` for a machine that we do not know."""
    name = _SPELLINGS.get(architecture, architecture)
    if name not in _MACHINES:
        raise SandboxCreationFailed(f"Docker sandboxes run on {' and '.join(sorted(_MACHINES))}, not on {architecture}")
    machine, listing = _MACHINES[name]
    code = bytes.fromhex(" ".join(listing))
    size, entry = _HEADERS + len(code), _LOAD_AT + _HEADERS
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, machine, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOAD_AT, _LOAD_AT, size, size, 0x10000)
    return header + segment + code


def place_idle_program(root: Path, architecture: str) -> Path:
    """Its file beneath `root`, made when it is not there yet."""
    program = idle_program(architecture)
    path = root / f"idle-{hashlib.sha256(program).hexdigest()[:12]}"
    if not path.exists():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Each maker has a name of its own, and the last rename wins with the same bytes.
        fresh = root / f"{path.name}.{secrets.token_hex(4)}"
        write_atomically(fresh, program)
        fresh.chmod(0o555)
        fresh.rename(path)
    return path
