"""The `devcontainer` command line (npm `@devcontainers/cli`), run where it can learn nothing of the host."""

import asyncio
import os
import re
import shutil
import signal
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from contracts.errors import SandboxCreationFailed, SandboxError, Unavailable

SETTING = "CLOCHE_DEVCONTAINER_CLI"
HOW_TO_GET = f"npm install -g @devcontainers/cli (needs Node.js), or name it in {SETTING}"
PASSED = ("PATH", "LANG", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
TAIL_LINES = 40
LINE_BYTES = 1 << 20
SHORTEST_HIDDEN = 4
"""A shorter value is no secret, and striking it out would leave nothing to read."""
_IMAGE_STEP = re.compile(r"^ ---> ([0-9a-f]{12})$", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Outcome(Struct, frozen=True, kw_only=True, rename="camel"):
    """The one line that the CLI writes to stdout."""

    outcome: str
    container_id: str | None = None
    message: str = ""
    description: str = ""


class _Line(Struct, frozen=True, kw_only=True):
    type: str = ""
    level: int = 0
    text: str = ""


def find_cli(env: Mapping[str, str] = os.environ) -> str:
    """Raises `Unavailable`, with how to get it, where there is none."""
    given = env.get(SETTING)
    found = shutil.which(given or "devcontainer", path=env.get("PATH"))
    if found is None:
        lacking = f"{SETTING}={given} is not a program" if given else "the devcontainer CLI is not installed"
        raise Unavailable(f"{lacking}: {HOW_TO_GET}")
    if shutil.which("docker", path=env.get("PATH")) is None:
        raise Unavailable(
            "the devcontainer CLI needs the `docker` command on PATH (package docker.io or docker-ce-cli)"
        )
    return found


def environment(engine: str, scratch: Path, host: Mapping[str, str] = os.environ) -> dict[str, str]:
    """No variable of the host that a configuration could put into the sandbox, and files left behind in `scratch`."""
    passed = {name: host[name] for name in PASSED if name in host}
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "DOCKER_HOST": engine}
    docker = Path(host.get("DOCKER_CONFIG") or Path(host.get("HOME", "/nowhere"), ".docker"))
    return {**passed, **own, **({"DOCKER_CONFIG": str(docker)} if docker.is_dir() else {})}


async def run_cli(
    argv: tuple[str, ...],
    env: Mapping[str, str],
    held: int,
    timeout_s: float,
    said: "Said",
    failed: type[SandboxError] = SandboxCreationFailed,
) -> Outcome:
    """Runs it to its end. `said` hears all of it. `held` stays open in it, also when we are gone.

    Raises `failed` with its last words when it fails or takes longer than `timeout_s`.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        pass_fds=(held,),
        limit=LINE_BYTES,
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, _ = await asyncio.gather(_first_line(process.stdout), said.listen(process.stderr))
            await process.wait()
    except TimeoutError as error:
        raise failed(f"devcontainer {argv[1]} took longer than {timeout_s:.0f} s\n{said.tail()}") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return _judge(argv[1], out, said, failed)


def _judge(verb: str, out: bytes, said: "Said", failed: type[SandboxError]) -> Outcome:
    try:
        outcome = msgspec.json.decode(out, type=Outcome)
    except msgspec.MsgspecError as error:
        raise failed(f"devcontainer {verb} ended without an outcome\n{said.tail()}") from error
    if outcome.outcome != "success":
        words = said.concealed(" ".join(part for part in (outcome.description, outcome.message) if part))
        raise failed(f"devcontainer {verb} failed: {words[:2000]}\n{said.tail()}")
    return outcome


async def _first_line(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    first = b""
    async for line in _lines(stream):
        first = first or line
    return first


class Said:
    """The end of what the CLI wrote, without `hidden` values, and which images it spoke of."""

    def __init__(self, hidden: Iterable[str] = ()) -> None:
        lines = {line for value in hidden for line in value.splitlines() if len(line) >= SHORTEST_HIDDEN}
        self._hidden = sorted(lines, key=len, reverse=True)
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._images: dict[str, None] = {}

    async def listen(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        async for raw in _lines(stream):
            try:
                line = msgspec.json.decode(raw, type=_Line)
            except msgspec.MsgspecError:
                continue
            self._hear(line)

    def _hear(self, line: _Line) -> None:
        if line.type == "raw":
            self._images.update(dict.fromkeys(_IMAGE_STEP.findall(line.text)))
        if line.type == "raw" or (line.type == "text" and line.level > 1):
            parts = (self.concealed(_COLOUR.sub("", part)) for part in line.text.splitlines() if part.strip())
            self._lines.extend(part[:500] for part in parts)

    def concealed(self, text: str) -> str:
        for value in self._hidden:
            text = text.replace(value, "********")
        return text

    def tail(self) -> str:
        return "\n".join(self._lines)

    def images(self) -> tuple[str, ...]:
        """That a builder without BuildKit made on the way, or says it did: it leaves them lying."""
        return tuple(self._images)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than any that we look at
            continue
        if not line:
            return
        yield line
