"""The programs of agents are in every sandbox, whatever its image has, and nothing inside can change them."""

from pathlib import Path

import pytest

from contracts.spec import SandboxSpec, Workspace
from infra.agent_tools import INSIDE, agent_tools, is_taken
from tests.conformance.inside import a_sandbox
from tests.conformance.tiers import TIERS


@pytest.mark.parametrize("name", TIERS)
async def test_the_tools_run_inside_and_cannot_be_written(tmp_path: Path, name: str) -> None:
    bundled = agent_tools()
    assert bundled is not None
    program = f"{INSIDE}/claude"
    async with a_sandbox(tmp_path, name=name) as inside:
        told = await inside.run(program, "--version")
        assert told.out.split()[0] == (bundled / "claude.version").read_text().split()[0]
        for attempt in (f": >> {program}", f"rm {program}", f": > {INSIDE}/more", f"mv {INSIDE} /tmp/moved"):
            assert not (await inside.sh(attempt)).ok, attempt
        mounted = [line.split() for line in (await inside.run("cat", "/proc/mounts")).out.splitlines()]
        assert ["ro" in each[3].split(",") for each in mounted if each[1] == INSIDE] == [True]


async def test_a_workspace_that_lies_there_wins(tmp_path: Path) -> None:
    async with a_sandbox(tmp_path, SandboxSpec(workspace=Workspace(path="/opt/cloche"))) as inside:
        assert (await inside.sh("ls -A /opt/cloche")).out == ""


async def test_the_settings_of_the_node_choose_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOCHE_DATA", raising=False)
    tools, data = tmp_path / "tools", tmp_path / "data"
    tools.mkdir()
    (tools / "mine").write_text("mine")
    data.mkdir()
    (data / "cloche.toml").write_text(f'[agent]\ntools = "{tools}"\n')
    async with a_sandbox(data) as inside:
        assert (await inside.sh(f"ls {INSIDE}")).out == "mine\n"


def test_the_directory_can_be_chosen_or_left_out(tmp_path: Path) -> None:
    assert agent_tools(str(tmp_path)) == tmp_path
    assert agent_tools(str(tmp_path / "gone")) is None
    assert agent_tools("") is None


@pytest.mark.parametrize(
    ("place", "taken"),
    [("/opt", True), (INSIDE, True), (f"{INSIDE}/claude", True), ("/opt/cloche/other", False), ("/workspace", False)],
)
def test_what_lies_above_or_beneath_takes_the_place(place: str, taken: bool) -> None:
    assert is_taken("/srv", place) is taken
