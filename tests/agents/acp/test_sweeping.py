"""What is ended of a turn that was interrupted: what it has started, and nothing that was there before."""

import contextlib
import subprocess
import time
import uuid
from collections.abc import Iterator

from services.agent.runtimes.acp.sweeping import SCRIPT


def now() -> int:
    """In hundredths of a second, as the kernel says when a process began."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 100)


@contextlib.contextmanager
def begun(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that begins in a moment of its own."""
    before = now()
    while now() <= before + 1:
        pass
    with subprocess.Popen(["sleep", "1000"], env={"MARK": mark}) as process:
        try:
            yield process
        finally:
            process.kill()


def test_what_a_turn_has_started_is_ended_however_late_the_sweep_comes() -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    with begun(mark) as before, begun("another") as other:
        asked = now()
        with begun(mark) as after:
            # The turn was no older than that when the sweep was asked for: it is by the time that it is carried out.
            subprocess.run(["/bin/sh", "-c", SCRIPT, "sh", mark, str(asked), "0", "3"], check=True, timeout=30)
            assert after.wait(10) == -9
        assert (before.poll(), other.poll()) == (None, None)
