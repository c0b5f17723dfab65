"""What a command's end says of how it came about."""

import pytest

from infra.client.execution import CommandResult


@pytest.mark.parametrize(
    ("result", "killed"),
    [
        (CommandResult(exec="e", outcome="completed", signal=9), True),
        (CommandResult(exec="e", outcome="completed", exit_code=137), True),
        (CommandResult(exec="e", outcome="cancelled", exit_code=0), True),
        (CommandResult(exec="e", outcome="completed", exit_code=1), False),
        (CommandResult(exec="e", outcome="completed", exit_code=0), False),
        (CommandResult(exec="e", outcome="lost"), False),
    ],
)
def test_what_an_engine_tells_as_a_number_may_be_a_kill_too(result: CommandResult, killed: bool) -> None:
    assert result.may_be_killed == killed
