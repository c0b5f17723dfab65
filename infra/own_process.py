"""What each of our long-lived processes asks of the kernel for itself."""

import ctypes
import logging
import os
import resource
from pathlib import Path

logger = logging.getLogger(__name__)

MOST_OPEN_FILES = 1 << 20
"""Some programs walk over every descriptor that they might have, and what we start inherits the limit."""
PR_SET_DUMPABLE = 4
OWN_DESCRIPTORS = Path("/proc/self/fdinfo")


def settle() -> None:
    """As many descriptors as allowed, and nothing of our memory for others. Never fails: what is refused is logged."""
    raise_open_files()
    keep_memory_private()


def raise_open_files() -> None:
    """The soft limit as high as the hard one. What runs in sandboxes has limits of its own, set by their providers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        logger.warning("at most %d files can be open at a time: %s", soft, error)


def keep_memory_private() -> None:
    """No core dump, and no look at our memory by another process of the same user: it holds secrets.

    Programs that are started keep the first; the second ends where another program begins.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _set_dumpable(dumpable=False)
    if not _sees_own_descriptors():
        # Older kernels take these from an ordinary user as well, and file operations need them.
        _set_dumpable(dumpable=True)
        logger.warning("other processes of this user can read the memory of this one: the kernel is too old")


def _set_dumpable(*, dumpable: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def _sees_own_descriptors() -> bool:
    with open(os.devnull, "rb") as file:  # noqa: PTH123  any descriptor
        try:
            (OWN_DESCRIPTORS / str(file.fileno())).read_bytes()
        except OSError:
            return False
        return True
