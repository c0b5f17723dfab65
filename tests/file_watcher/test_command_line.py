"""Snapshots from the command line."""

import json
from pathlib import Path

from tests.cli.shell import up_in


def test_a_snapshot_prints_the_sequence_to_come_back_to(tmp_path: Path) -> None:
    with up_in(tmp_path, DOCKER_HOST="unix:///nobody/listens.sock") as cloche:
        assert cloche("create", "--id", "box").code == 0
        assert cloche("exec", "box", "--", "sh", "-c", "echo kept > kept").code == 0
        said = cloche("snapshot", "box", "--label", "first")
        assert said.code == 0, said.err
        assert int(said.out) > 0
        taken = json.loads(cloche("snapshot", "box", "--json").out)
        assert (taken["files"], taken["size"]) == (1, 5)
        said = cloche("snapshot", "nobody")
        assert (said.code, said.err) == (2, b"cloche: there is no sandbox 'nobody': see `cloche ps --all`\n")
        assert cloche("rm", "box").code == 0
        assert b"is removed" in cloche("snapshot", "box").err
