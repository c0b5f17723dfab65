"""`cloche backup` while commands run, the store destroyed, `cloche restore`, and everything goes on."""

import contextlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.shell import Shell, cleaned, up_in

SETTINGS = """
[audit]
checkpoint_events = 20
checkpoint_s = 0.2
"""


class Saved(NamedTuple):
    """A node whose store was backed up while a command ran, and went on afterwards. It is down."""

    shell: Shell
    file: Path
    backup: dict[str, Any]
    sandbox: str
    history: bytes
    """Of the sandbox, at the time of the backup and later."""
    work: Path

    @property
    def last(self) -> int:
        return next(int(each["last_sequence"]) for each in self.backup["streams"] if each["stream"] == "CLOCHE_LOG")


def run(shell: Shell, *arguments: str) -> bytes:
    said = shell(*arguments)
    assert said.code == 0, said.err
    return said.out


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Saved]:
    work = tmp_path_factory.mktemp("backup")
    data = work / "data"
    data.mkdir(mode=0o700)
    (data / "cloche.toml").write_text(SETTINGS)
    with up_in(data, CLOCHE_GATEWAY_PORT="0") as shell:
        sandbox = run(shell, "create").decode().strip()
        run(shell, "exec", sandbox, "--", "sh", "-c", "echo kept > file; seq 1 2000")
        with shell.begun(
            "exec", sandbox, "--", "sh", "-c", "echo began; while :; do echo more; sleep 0.01; done"
        ) as line:
            assert line.stdout is not None
            line.stdout.readline()
            _proven(shell)
            backup = json.loads(run(shell, "backup", str(work), "--json"))
            assert shell("restore", backup["file"]).code == 1, "while it is up"
        run(shell, "exec", sandbox, "--", "true")
        history = run(shell, "events", sandbox, "--json")
        run(shell, "rm", sandbox)
        run(shell, "down")
        yield Saved(shell, Path(backup["file"]), backup, sandbox, history, work)


def _proven(shell: Shell) -> None:
    """Waits for the first checkpoint: the key is made with it."""
    while not json.loads(run(shell, "audit", "--json"))["checkpoint"]:
        pass


def test_a_store_that_was_destroyed_is_as_it_was_at_the_backup_and_work_goes_on(saved: Saved) -> None:
    with cleaned(saved.work / "anew", CLOCHE_GATEWAY_PORT="0") as shell:
        said = shell("restore", str(saved.file))
        assert said.code == 2
        assert b"--no-settings" in said.err, "settings are taken by who asks for them"
        assert shell("restore", str(saved.file), "--settings", "--key", "ab" * 32).code == 2, "another's"
        assert not shell.data.exists()
        signer = saved.backup["signed_by"]
        told = json.loads(run(shell, "restore", str(saved.file), "--settings", "--key", signer, "--json"))
        assert "audit/key.pem" in told["files"]
        assert (shell.data / "cloche.toml").read_text() == SETTINGS
        run(shell, "up", "--detach")
        history = run(shell, "events", saved.sandbox, "--json").splitlines()
        before = [line for line in saved.history.splitlines() if json.loads(line)["sequence"] <= saved.last]
        assert history[: len(before)] == before
        run(shell, "recover", saved.sandbox)
        assert _seen(shell, saved.sandbox, {"command.lost", "sandbox.recovered"}) > saved.last
        assert run(shell, "exec", saved.sandbox, "--", "cat", "file") == b"kept\n"
        verdict = json.loads(run(shell, "verify", "--json"))
        assert verdict["ok"]
        assert shell("audit").code == 0
        assert shell("restore", str(saved.file)).code == 1, "while it is up"
        run(shell, "down")
        said = shell("restore", str(saved.file))
        assert said.code == 2
        assert b"proven here up to sequence" in said.err, "the store is not looked at before what it must not lose"
        said = shell("restore", str(saved.file), "--accept-loss")
        assert said.code == 2
        assert b"into an empty store only" in said.err
        assert json.loads(run(shell, "verify", "--json"))["ok"], "nothing was changed"


def _seen(shell: Shell, sandbox: str, tags: set[str]) -> int:
    """Waits for these events; the sequence of the first of them."""
    first = 0
    with shell.begun("events", sandbox, "--json", "--follow", "--type", ",".join(tags)) as line:
        assert line.stdout is not None
        while tags:
            told = json.loads(line.stdout.readline())
            tags = tags - {told["event"]["type"]}
            first = first or int(told["sequence"])
    return first


def test_a_store_that_was_lost_where_more_was_proven_is_restored_only_by_who_accepts_that(saved: Saved) -> None:
    shell = saved.shell
    shutil.rmtree(shell.data / "nats" / "store")
    said = shell("restore", str(saved.file))
    assert said.code == 2
    assert f"and the backup ends at {saved.last}".encode() in said.err
    told = json.loads(run(shell, "restore", str(saved.file), "--accept-loss", "--json"))
    aside = Path(told["set_aside"])
    assert (aside / "checkpoints.jsonl").stat().st_size > (shell.data / "audit" / "checkpoints.jsonl").stat().st_size
    run(shell, "up", "--detach")
    assert json.loads(run(shell, "verify", "--json"))["ok"]
    assert shell("audit").code == 0
    run(shell, "down")


def test_a_store_put_back_behind_our_back_is_told_to_be_shorter_than_proven(saved: Saved) -> None:
    """The way of an operator who copies files: the record outside the store is newer than the store."""
    with cleaned(saved.work / "behind", CLOCHE_GATEWAY_PORT="0") as shell:
        run(shell, "restore", str(saved.file), "--no-settings")
        assert not (shell.data / "cloche.toml").exists()
        (shell.data / "cloche.toml").write_text(SETTINGS)
        newer = next(saved.shell.data.glob("audit.before-*"), saved.shell.data / "audit")
        shutil.rmtree(shell.data / "audit")
        shutil.copytree(newer, shell.data / "audit")
        run(shell, "up", "--detach")
        while (said := shell("audit", "--json")).code == 0:
            pass
        damage = json.loads(said.out)["damages"][0]
        assert (damage["fault"], damage["first_sequence"]) == ("truncated", saved.last + 1)


@pytest.mark.parametrize("name", ["cloche-backup.json", "files/audit/key.pem", "streams/CLOCHE_LOG/00000001"])
def test_a_damaged_backup_is_refused_with_its_place_before_anything_is_changed(
    saved: Saved, tmp_path: Path, name: str
) -> None:
    with tarfile.open(saved.file) as tar:
        at = tar.getmember(name).offset_data
    content = bytearray(saved.file.read_bytes())
    content[at + 7] ^= 16
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    said = Shell(tmp_path / "data")("restore", str(damaged))
    assert said.code == 2
    assert f"{name!r} is damaged".encode() in said.err
    assert not (tmp_path / "data").exists()


def test_a_restore_that_was_killed_starts_nothing_and_is_done_by_the_next_one(saved: Saved) -> None:
    with cleaned(saved.work / "killed", CLOCHE_GATEWAY_PORT="0") as shell:
        with shell.begun("restore", str(saved.file), "--settings") as line:
            _until_something_is_there(shell.data)
            line.kill()
        said = shell("up", "--detach")
        assert said.code == 1, said.err
        assert b"run it again" in said.err
        half = shell.data / "audit" / "key.pem.new"
        half.parent.mkdir(exist_ok=True)
        half.write_text("half")
        told = json.loads(run(shell, "restore", str(saved.file), "--settings", "--json"))
        assert "audit/key.pem" in told["files"]
        run(shell, "up", "--detach")
        assert json.loads(run(shell, "verify", "--json"))["ok"]


def _until_something_is_there(data: Path) -> None:
    """A stream of it. What is being made may be gone again while it is looked at."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            if any((data / "nats").glob("store/jetstream/*/streams/*")):
                return
