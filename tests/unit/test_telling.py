"""A story as it is printed."""

import pytest

from contracts.errors import Failure
from contracts.events import health, sandbox
from services.cli.telling import print_story
from tests.unit.histories import DIED, NEVER, Told, begun, death, letter, stopped, story


def test_nothing_that_came_out_of_a_sandbox_reaches_the_terminal_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\r\u202e[bold]x[/bold]\x9b31m\n"
    refused = letter("start", hostile)
    died = death(detail=hostile, last_output=f"first\r\n{hostile}last\tline", looked_at=(hostile,))
    failure = Failure(code="SANDBOX_DIED", message=hostile, details={})
    told = [
        *begun(NEVER),
        refused,
        health.HealthUnhealthy(reason=hostile),
        died,
        Told(sandbox.SandboxStopped(reason=hostile, failure=failure), "c-1"),
    ]
    print_story(story(*told))
    out = capsys.readouterr().out
    assert {character for character in out if not character.isprintable()} == {"\n"}
    assert "[bold]x[/bold]" in out
    assert "| first\n" in out
    assert "\\x1b]0;owned\\x07" in out


def test_a_story_reads_as_it_is_meant_to(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    died = death(health.DeathCause.OOM, signal=9, last_output="allocating\n")
    print_story(story(*begun(NEVER), died, stopped(DIED, command="health-stop-1", reason="the sandbox died")))
    assert capsys.readouterr().out == (
        "sb is stopped: it ran out of memory (it may have 4 GiB), and was not recovered, because its restart\n"
        "policy is `never`  [13-14]\n"
        "\n"
        "01 May    was made and started on node local as a local sandbox, as command c-make asked  [10-12]\n"
        "01 May    died: it ran out of memory (it may have 4 GiB): init ended; it is not recovered, because\n"
        "          its restart policy is `never`  [13]\n"
        "          | allocating\n"
        "01 May    was stopped, by the health monitor (command health-stop-1)  [14]\n"
        "\n"
        "What to do:\n"
        "  cloche start sb\n"
        "      start it again, with its workspace\n"
        "  cloche fork sb --at 99 --set resources.memory_mb=8192\n"
        "      the same files in a new sandbox that may have more\n"
        "\n"
        "[n] are sequences of the log: `cloche events sb --from 10` shows them\n"
    )
