"""Runs inside a sandbox: uses a secret, then looks for it in everything that its user can read.

What is looked for comes disguised, each byte turned by 0x55, and is compared with what is read turned likewise: so the
search does not find itself.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TURNED = bytes(each ^ 0x55 for each in range(256))
CHUNK = 1 << 20
SYSTEM = ("/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/run/cloche/python")
"""Not the system's own files, which were there before and cannot be written."""

CLIENT = """
import http.client, os, sys, urllib.request
answers = []
for url in sys.argv[1:]:
    with urllib.request.urlopen(url, timeout=20) as answer:
        answers.append((dict(answer.headers), answer.read()))
canary = bytes(each ^ 0x55 for each in bytes.fromhex(sys.stdin.readline().strip()))
kept = os.path.join(os.environ["PLACE"], "kept")
with open(kept, "wb") as file:
    file.write(canary)
print("used", flush=True)
sys.stdin.read()
"""


def main() -> None:
    wanted = {name: bytes.fromhex(value) for name, value in json.loads(sys.argv[1]).items()}
    canary = wanted["canary"].translate(TURNED).decode()
    with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as place:
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, *sys.argv[2:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PLACE": place, "CANARY": canary},
        )
        del canary
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(wanted["canary"].hex().encode() + b"\n")
        client.stdin.flush()
        used = client.stdout.readline() == b"used\n"
        found: dict[str, set[str]] = {name: set() for name in wanted}
        for kind, content in everything(place):
            turned = content.translate(TURNED)
            for name, text in wanted.items():
                if text in turned:
                    found[name].add(kind)
        client.communicate()
    print(json.dumps({"used": used, **{name: sorted(kinds) for name, kinds in found.items()}}))


def everything(place: str) -> Iterator[tuple[str, bytes]]:
    for process in (entry for entry in os.listdir("/proc") if entry.isdigit()):
        yield "environ", _read(f"/proc/{process}/environ")
        yield "arguments", _read(f"/proc/{process}/cmdline")
        if int(process) != os.getpid():
            yield from (("memory", content) for content in _memory(process))
    for directory, below, files in os.walk("/"):
        below[:] = [each for each in below if os.path.join(directory, each) not in SYSTEM]
        for name in files:
            path = os.path.join(directory, name)
            if Path(path).is_file() and not os.path.islink(path):
                yield "file", _read(path)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(64 << 20)
    except OSError:
        return b""


def _memory(process: str) -> Iterator[bytes]:
    try:
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
            for line in maps:
                area, rights = line.split()[:2]
                begin, end = (int(each, 16) for each in area.split("-"))
                if "r" in rights and not line.rstrip().endswith(("[vvar]", "[vsyscall]")):
                    yield _area(memory.fileno(), begin, end)
    except OSError:
        return


def _area(memory: int, begin: int, end: int) -> bytes:
    try:
        return os.pread(memory, min(end - begin, 64 << 20), begin)
    except (OSError, OverflowError):
        return b""


if __name__ == "__main__":
    main()
