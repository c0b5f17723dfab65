"""Names of what belongs to a run, the same in every life of this service."""

from services.agent.digest import digest

OF_RUN = 16
"""Hexadecimal digits that tell one run's commands from those of others."""


def process_name(run: str, attempt: int) -> str:
    """The command that is the run's program."""
    return f"a-{digest(run)[:OF_RUN]}-{attempt}"


def command_name(run: str, key: str) -> str:
    """Any other command that the run has carried out."""
    return f"e-{digest(run)[:OF_RUN]}-{digest(run, key)}"


def call_name(run: str, key: str) -> str:
    """The tool call under whose key a command is run."""
    return f"t-{digest(run, key)}"


def is_call(call: str) -> bool:
    return call.startswith("t-")


def command_of(run: str, call: str) -> str:
    """The command that such a tool call runs, if it runs one."""
    return f"e-{digest(run)[:OF_RUN]}-{call.removeprefix('t-')}"


def belongs(command: str, run: str) -> bool:
    kind, _, rest = command.partition("-")
    return kind in ("a", "e") and rest.startswith(f"{digest(run)[:OF_RUN]}-")


def is_program(command: str) -> bool:
    return command.startswith("a-")


def approval_name(run: str, key: str) -> str:
    return f"ap-{digest(run, key)}"
