"""Exit codes in our words."""

import signal

from infra.sandbox.base import End

SIGNALLED = 128
KILLED = SIGNALLED + signal.SIGKILL


def end_by_code(code: int, detail: str, *, out_of_memory: bool = False) -> End:
    """`code` is 128 + n for signal n. `out_of_memory` is believed only of what was killed."""
    if code <= SIGNALLED:
        return End(cause="exit", detail=detail, exit_code=code)
    oom = out_of_memory and code == KILLED
    return End(cause="oom" if oom else "killed", detail=detail, exit_code=code, signal=code - SIGNALLED)
