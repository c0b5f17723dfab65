"""Cloche for Python programs: `from cloche import Cloche`."""

from contracts.errors import ClocheError
from contracts.spec import SandboxSpec
from infra.client import Cloche, CommandResult

__all__ = ["Cloche", "ClocheError", "CommandResult", "SandboxSpec"]
