"""`cloche verify` on a node with real commands, and on what it exports."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.streams import LOG_STREAM
from infra.access import open_as
from infra.audit.keys import Keys
from infra.audit.signing import public_of
from infra.blobs import layout
from infra.blobs.guarded import append_after
from infra.blobs.reading import find
from infra.bus import reader
from infra.configuration import load
from infra.embedded.users import ADMIN
from tests.cli.shell import Shell, up_in
from tests.verify.logs import OTHER

SETTINGS = """
[audit]
checkpoint_events = 20
checkpoint_s = 0.2
anchors = ["file:{anchors}"]
"""


class Proven:
    """A node with two sandboxes, whose checkpoints cover all that they did."""

    def __init__(self, shell: Shell, place: Path) -> None:
        self.shell = shell
        self.place = place
        self.anchors = place / "anchors.jsonl"

    @property
    def key(self) -> str:
        key = Keys(self.shell.data / "audit").current()
        assert key is not None
        return public_of(key)

    def judged(self, *arguments: str) -> dict[str, Any]:
        said = self.shell("verify", *arguments, "--json")
        verdict: dict[str, Any] = json.loads(said.out)
        assert said.code == (0 if verdict["ok"] else 1), said.err
        return verdict

    def exported(self, name: str, *arguments: str) -> Path:
        file = self.place / name
        said = self.shell("export", *arguments, "-o", str(file))
        assert said.code == 0, said.err
        return file


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proven]:
    place = tmp_path_factory.mktemp("verify")
    (place / "node").mkdir()
    (place / "node" / "cloche.toml").write_text(SETTINGS.format(anchors=place / "anchors.jsonl"))
    with up_in(place / "node") as shell:
        for name in ("one", "two"):
            assert shell("create", "--id", name).code == 0
            assert shell("exec", name, "--", "sh", "-c", f"echo {name} > file; echo said; echo more >&2").code == 0
        assert shell("snapshot", "one").code == 0
        found = Proven(shell, place)
        _until(lambda: found.judged("one", "--no-blobs"), lambda verdict: verdict["unproven"] == 0)
        yield found


def _until(look: Callable[[], dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first that is as wanted: a checkpoint comes by itself."""
    for _ in range(200):
        if wanted(found := look()):
            return found
    raise AssertionError("no checkpoint came")


def test_the_whole_log_is_complete_and_proven(proven: Proven) -> None:
    said = proven.shell("verify")
    assert said.out.startswith(b"complete: "), said
    verdict = proven.judged()
    assert verdict["commands"] == verdict["ended"] == 2
    assert verdict["keys"] == [proven.key]
    assert verdict["proven_from"] == 1
    assert verdict["anchors"] >= verdict["checkpoints"] > 0
    assert verdict["contents"] > 0


def test_one_sandbox_is_proven_against_a_key_and_anchors(proven: Proven) -> None:
    verdict = proven.judged("one", "--key", proven.key, "--anchors", str(proven.anchors))
    assert (verdict["ok"], verdict["commands"], verdict["unproven"]) == (True, 1, 0)
    assert verdict["contents"] > 0
    stranger = proven.judged("one", "--key", public_of(OTHER))
    assert {finding["fault"] for finding in stranger["findings"]} == {"unknown_key"}


def test_an_export_is_verified_without_a_server(proven: Proven, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{proven.key}\n")
    elsewhere = Shell(tmp_path / "nothing")
    for file in (proven.exported("one.jsonl", "one"), proven.exported("log.jsonl.gz", "--all")):
        said = elsewhere("verify", str(file), "--key", str(key), "--anchors", str(proven.anchors))
        assert (said.code, said.out.split(b":")[0]) == (0, b"complete"), said
    assert not elsewhere.data.exists()


def test_a_changed_export_names_the_first_sequence_that_is_wrong(proven: Proven, tmp_path: Path) -> None:
    lines = proven.exported("changed.jsonl", "one").read_bytes().splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if b'"data":"said\\n"' in line]
    sequence = json.loads(lines[at])["sequence"]
    file = tmp_path / "forged.jsonl"
    file.write_bytes(b"".join([*lines[:at], lines[at].replace(b"said", b"sald"), *lines[at + 1 :]]))
    said = proven.shell("verify", str(file), "--key", proven.key)
    assert said.code == 1
    assert said.out.startswith(f"sequence {sequence}: changed: ".encode())
    file.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    assert proven.judged(str(file))["first_bad_sequence"] == sequence
    file.write_bytes(b"".join(lines[:-1]))
    assert [finding["fault"] for finding in proven.judged(str(file))["findings"]] == ["truncated"]


def test_a_log_that_ends_before_its_anchors_is_truncated(proven: Proven, tmp_path: Path) -> None:
    last = json.loads(proven.anchors.read_bytes().splitlines()[-1])
    whole = proven.exported("short.jsonl", "--all", "--to", str(last["first_sequence"] - 1))
    verdict = proven.judged(str(whole), "--anchors", str(proven.anchors))
    assert verdict["findings"][0]["fault"] == "truncated"
    assert verdict["first_bad_sequence"] == last["first_sequence"]


def test_mistakes_are_one_clear_line(proven: Proven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("nothing\n")
    for arguments, words in (
        (["nobody"], "there is no sandbox 'nobody'"),
        (["no-such.jsonl"], "no file of that name"),
        ([str(nothing)], "no export"),
        (["--key", "xyz"], "is no key"),
        (["--key", str(nothing)], "no key in"),
        (["--anchors", str(nothing)], "no anchor in it"),
        (["--anchors", str(tmp_path / "gone")], "cannot read"),
    ):
        said = proven.shell("verify", *arguments)
        assert (said.code, said.out, said.err.count(b"\n")) == (2, b"", 1), said
        assert words in said.err.decode()
    assert os.listdir(tmp_path) == ["nothing.txt"]
    monkeypatch.chdir(tmp_path)
    nothing.rename("nothing")
    assert b"the file of that name is `./nothing`" in proven.shell("verify", "nothing").err


async def test_a_content_that_was_rewritten_in_the_store_is_told_at_the_first_event_that_names_it(
    proven: Proven,
) -> None:
    name = hashlib.sha256(b"two\n").hexdigest()
    said = proven.shell("events", "two", "--type", "file", "--json")
    naming = [json.loads(line)["sequence"] for line in said.out.splitlines() if name.encode() in line]
    async with open_as(load(proven.shell.env), ADMIN) as admin:
        right = (await find(admin, [name]))[name]
        nuid, subject = layout.new_nuid(), layout.object_subject(name)
        await append_after(admin, layout.chunks_subject(nuid), b"2wo\n", 0)
        wrong = layout.encode_info(layout.object_info(name, nuid, right.info.size, right.info.chunks))
        last = await append_after(admin, subject, wrong, right.entry.seq)
        verdict = await asyncio.to_thread(proven.judged, "two")
        await append_after(admin, subject, layout.encode_info(right.info), last)
    assert [(each["sequence"], each["fault"]) for each in verdict["findings"]] == [(naming[0], "blob_changed")]
    assert proven.judged("two")["ok"]


def test_what_a_key_signed_before_it_was_replaced_still_counts(proven: Proven) -> None:
    before = proven.key
    assert proven.shell("audit", "rotate").code == 0
    # The log has it first, the file then.
    for _ in range(600):
        if (after := proven.key) != before:
            break
        time.sleep(0.1)
    assert after != before
    verdict = _until(lambda: proven.judged("--key", before, "--no-blobs"), lambda each: after in each["keys"])
    assert (verdict["ok"], verdict["keys"]) == (True, [before, after])
    assert proven.judged("one", "--key", after)["ok"]


async def test_what_is_left_of_a_trimmed_log_is_proven(proven: Proven) -> None:
    """The last one here: the others need what it removes."""
    start = proven.judged("two", "--no-blobs")["last_sequence"] // 2
    async with open_as(load(proven.shell.env), ADMIN) as admin:
        config = (await admin.api(f"STREAM.INFO.{LOG_STREAM}"))["config"]
        count = (await reader.bounds(admin)).last - start + 1
        await admin.api(f"STREAM.UPDATE.{LOG_STREAM}", {**config, "max_msgs": count})
    verdict = proven.judged("--key", proven.key, "--anchors", str(proven.anchors))
    assert verdict["findings"] == []
    assert start <= verdict["first_sequence"] == verdict["proven_from"] < verdict["proven_to"]
    assert b"is not kept" in proven.shell("verify").out
    assert proven.judged("two")["findings"] == []
