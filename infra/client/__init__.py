"""The Python client."""

from infra.client.connection import Cloche
from infra.client.execution import CommandResult, Execution
from infra.client.sandbox import Diff, Recovered, Sandbox, Snapshot

__all__ = ["Cloche", "CommandResult", "Diff", "Execution", "Recovered", "Sandbox", "Snapshot"]
