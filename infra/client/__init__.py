"""The Python client."""

from infra.client.connection import Cloche
from infra.client.execution import CommandResult, Execution
from infra.client.sandbox import Diff, Sandbox

__all__ = ["Cloche", "CommandResult", "Diff", "Execution", "Sandbox"]
