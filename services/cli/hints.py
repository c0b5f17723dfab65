"""What to do next, for errors that do not say it themselves."""

from contracts.errors import ClocheError, QuotaExceeded, SandboxNotFound


def hint(error: ClocheError) -> str:
    """What belongs behind the message; nothing where that names a command already."""
    if isinstance(error, QuotaExceeded):
        return ": see `cloche quotas`"
    if not isinstance(error, SandboxNotFound) or "`" in error.message:
        return ""
    if error.message.startswith("there was no sandbox"):
        return ": `cloche ps --all` has all sandboxes, `cloche show SANDBOX` the sequences of one"
    return ": see `cloche ps --all`" if error.message.startswith("there is no sandbox") else ""
