"""Checkpoints get to every place outside, once each, also to one that was away."""

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from contracts import chain
from contracts.audits import Anchor
from contracts.errors import Invalid, Unavailable
from infra.audit.anchoring import Anchoring
from infra.audit.keys import Keys
from infra.audit.record import Kept, Placed, Record
from infra.audit.signing import public_of, sign, verify
from infra.audit.targets import GIT_FILE, target_of
from tests.audit.test_record import AT, kept
from tests.bus.servers import until


def git(repository: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], env=env, check=True, capture_output=True, text=True
    )
    return done.stdout


def ends(text: str) -> list[int]:
    return [msgspec.json.decode(line, type=Anchor).last_sequence for line in text.splitlines()]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    made.mkdir()
    git(made, "init", "--quiet")
    return made


async def test_a_checkpoint_at_an_anchor_can_be_checked_without_the_log(tmp_path: Path) -> None:
    key = Keys(tmp_path).make()
    said = msgspec.structs.replace(kept(1, 5).checkpoint, key=public_of(key), log="log-1")
    signed = msgspec.structs.replace(said, signature=sign(key, chain.statement(said)))
    record = Record(tmp_path)
    record.append(Kept(sequence=6, time=AT, checkpoint=signed))
    target = target_of(f"file:{tmp_path / 'anchors'}")
    await Anchoring(tmp_path, record, [target]).catch_up(target)
    anchor = msgspec.json.decode((tmp_path / "anchors").read_bytes(), type=Anchor)
    assert anchor == chain.anchor(signed, AT)
    assert verify(anchor.key, chain.statement(anchor), anchor.signature)
    assert not verify(anchor.key, chain.statement(msgspec.structs.replace(anchor, hash="0")), anchor.signature)


async def test_a_place_that_was_away_is_complained_about_once_and_then_given_what_it_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = Record(tmp_path)
    away, there = tmp_path / "away" / "anchors", tmp_path / "there"
    anchoring = Anchoring(tmp_path, record, [target_of(f"file:{away}"), target_of(f"file:{there}")], retry_s=0.01)
    running = asyncio.create_task(anchoring.run())
    for number in range(3):
        record.append(kept(number * 10 + 1, number * 10 + 10))
        anchoring.told()
        await until(lambda number=number: there.exists() and ends(there.read_text())[-1:] == [number * 10 + 10])  # type: ignore[misc]
    await until(lambda: f"file:{away}" in anchoring.troubles)
    away.parent.mkdir()
    await until(lambda: not anchoring.troubles and away.exists())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ends(away.read_text()) == ends(there.read_text()) == [10, 20, 30]
    assert len([each for each in caplog.records if "not anchored" in each.message]) == 1


async def test_nothing_is_anchored_twice_after_a_restart_or_a_crash_before_it_was_remembered(tmp_path: Path) -> None:
    record, target = Record(tmp_path), target_of(f"file:{tmp_path / 'anchors'}")
    for number in range(3):
        record.append(kept(number * 10 + 1, number * 10 + 10))
        await Anchoring(tmp_path, record, [target]).run_once()
    (tmp_path / "anchored.json").unlink()
    with (tmp_path / "anchors").open("ab") as file:
        file.write(b'{"torn')
    record.append(kept(31, 40))
    await Anchoring(tmp_path, record, [target]).run_once()
    whole = [line for line in (tmp_path / "anchors").read_text().splitlines() if line != '{"torn']
    assert ends("\n".join(whole)) == [10, 20, 30, 40]


async def test_what_a_cut_log_was_made_of_then_is_anchored_beside_what_it_is_now(tmp_path: Path) -> None:
    record, target = Record(tmp_path), target_of(f"file:{tmp_path / 'anchors'}")
    for each in (kept(1, 10), kept(11, 20)):
        record.append(each)
    anchoring = Anchoring(tmp_path, record, [target])
    await anchoring.run_once()
    record.append(kept(11, 15, hash_="other"))
    await anchoring.run_once()
    assert ends((tmp_path / "anchors").read_text()) == [10, 20, 15]


async def test_a_trimmed_record_loses_no_anchor_and_repeats_none(tmp_path: Path) -> None:
    record, target = Record(tmp_path), target_of(f"file:{tmp_path / 'anchors'}")
    for number in range(10):
        record.append(kept(number * 10 + 1, number * 10 + 10))
    anchoring = Anchoring(tmp_path, record, [target])
    await anchoring.run_once()
    assert record.trim(91)
    record.append(kept(101, 110))
    await anchoring.run_once()
    assert ends((tmp_path / "anchors").read_text()) == [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]


async def test_a_record_that_is_trimmed_while_it_is_read_loses_no_anchor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, target = Record(tmp_path), target_of(f"file:{tmp_path / 'anchors'}")
    for number in range(10):
        record.append(kept(number * 10 + 1, number * 10 + 10))
    anchoring = Anchoring(tmp_path, record, [target])
    await anchoring.run_once()
    for number in range(10, 14):
        record.append(kept(number * 10 + 1, number * 10 + 10))
    trimming = threading.Thread(target=record.trim, args=(111,))
    read = record.lines

    def meanwhile(start: int = 0) -> Iterator[Placed]:
        if not trimming.ident and start:
            trimming.start()
            # It waits until this is read: or else it is through long before.
            trimming.join(0.2)
        return read(start)

    monkeypatch.setattr(record, "lines", meanwhile)
    await anchoring.run_once()
    trimming.join()
    assert ends((tmp_path / "anchors").read_text()) == list(range(10, 150, 10))


async def test_git_commits_the_line_and_nothing_else_though_nobody_is_configured(
    tmp_path: Path, repository: Path
) -> None:
    (repository / "mine").write_text("staged")
    git(repository, "add", "mine")
    (repository / ".gitignore").write_text("*.jsonl\n")
    record, target = Record(tmp_path), target_of(f"git:{repository}")
    for number in range(2):
        record.append(kept(number * 10 + 1, number * 10 + 10))
        await Anchoring(tmp_path, record, [target]).run_once()
    assert git(repository, "log", "--format=%s").splitlines() == ["Cloche checkpoint"] * 2
    assert git(repository, "ls-tree", "--name-only", "HEAD").split() == [GIT_FILE]
    assert ends(git(repository, "show", f"HEAD:{GIT_FILE}")) == [10, 20]
    assert git(repository, "status", "--porcelain").splitlines() == ["A  mine", "?? .gitignore"]


async def test_git_commits_what_a_crash_left_uncommitted(tmp_path: Path, repository: Path) -> None:
    record, target = Record(tmp_path), target_of(f"git:{repository}")
    record.append(kept(1, 10))
    line = msgspec.json.encode(chain.anchor(kept(1, 10).checkpoint, AT))
    (repository / GIT_FILE).write_bytes(line + b"\n")
    await Anchoring(tmp_path, record, [target]).run_once()
    assert ends(git(repository, "show", f"HEAD:{GIT_FILE}")) == [10]
    # Nothing new is no commit.
    await target.append([line])
    assert git(repository, "log", "--format=%s").splitlines() == ["Cloche checkpoint"]


async def test_what_is_no_repository_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="git"):
        await target_of(f"git:{tmp_path}").append([b"{}"])
    with pytest.raises(Unavailable):
        await target_of(f"git:{tmp_path / 'nowhere'}").append([b"{}"])
    assert not (tmp_path / GIT_FILE).exists()


async def test_stdout_gets_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = Record(tmp_path)
    record.append(kept(1, 10))
    record.append(kept(11, 20))
    await Anchoring(tmp_path, record, [target_of("stdout:")]).run_once()
    await Anchoring(tmp_path, record, [target_of("stdout:")]).run_once()
    assert ends(capsys.readouterr().out) == [10, 20]


@pytest.mark.parametrize("name", ["", "file:", "file:relative", "git:", "ftp:/x", "stdout:/x", "/x"])
def test_an_anchor_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="anchors"):
        target_of(name)
