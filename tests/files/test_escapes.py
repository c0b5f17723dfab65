"""Every attempt of the corpus, on every verb, by both ways of opening: refused, and nothing outside is touched."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from contracts import files, transfers
from contracts.errors import ClocheError
from infra.files.beneath import Way
from tests.files.attempts import CORPUS, ORDINARY, Attempt
from tests.files.verbs import VERBS, raw_path
from tests.files.workspaces import SECRET, Ground

NEEDS_WHAT_IS_THERE = ("read", "edit", "list", "glob", "grep", "stat", "remove", "move_from", "download")


def a_ground(tmp_path: Path, attempt: Attempt | None = None) -> Ground:
    ground = Ground(tmp_path)
    (ground.workspace / "plain").write_bytes(b"plain\n")
    (ground.workspace / "directory").mkdir()
    if attempt is not None:
        attempt.setup(ground)
    ground.give()
    return ground


def test_the_corpus_is_large_enough() -> None:
    assert len({attempt.name for attempt in CORPUS}) == len(CORPUS) >= 60


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("attempt", CORPUS, ids=lambda attempt: attempt.name)
def test_no_attempt_leaves_the_workspace(tmp_path: Path, attempt: Attempt, way: Way) -> None:
    if attempt.as_root and os.geteuid() != 0:
        pytest.skip("only root can set this up")
    ground: Ground | None = None
    for verb in VERBS:
        ground = ground or a_ground(tmp_path / verb, attempt)
        before = ground.fingerprint()
        is_refused = try_out(ground, attempt, verb, way)
        assert ground.fingerprint() == before, verb
        assert {each.name for each in ground.host.iterdir()} <= {"workspace", "outside", "staging", "transfers"}, verb
        assert not os.listdir(ground.staging.directory), verb
        ground = ground if is_refused else None


def try_out(ground: Ground, attempt: Attempt, verb: str, way: Way) -> bool:
    """True if it was refused."""
    raw = None if attempt.raw is None else raw_path(attempt.raw)
    with ground.open(way) as workspace:
        try:
            answer, refused = VERBS[verb](ground, workspace, attempt.path, raw), None
        except ClocheError as error:
            answer, refused = None, error.failure()
    said = msgspec.json.encode(refused or answer)
    assert verb in attempt.harmless if refused is None else refused.code == attempt.refusal(verb), (verb, said)
    assert os.fsencode(ground.host) not in said
    assert SECRET.strip() not in said
    return refused is not None


def test_every_request_that_has_a_path_is_among_the_verbs() -> None:
    with_path = [
        name for name, kind in {**files.REQUESTS, **transfers.REQUESTS}.items() if "path" in kind.__struct_fields__
    ]
    assert len(with_path) == 12
    assert all(any(verb.startswith(name) for verb in VERBS) for name in with_path)


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("verb", ["write", "append", "edit", "upload", "upload_into"])
def test_a_write_never_follows_a_link_even_if_it_stays(tmp_path: Path, verb: str, way: Way) -> None:
    ground = a_ground(tmp_path)
    (ground.workspace / "plain").write_bytes(b"secret\n")
    for name, target in (("link", "plain"), ("absolute", "/workspace/plain"), ("new", "not/there")):
        (ground.workspace / name).symlink_to(target)
        with ground.open(way) as workspace, pytest.raises(ClocheError) as refused:
            VERBS[verb](ground, workspace, name, None)
        assert refused.value.code == "SANDBOX_PATH_DENIED"
        assert (ground.workspace / name).is_symlink()
    assert (ground.workspace / "plain").read_bytes() == b"secret\n"
    assert not (ground.workspace / "not").exists()


class Watch:
    """What the interpreter is asked to do while it is on. It cannot be taken away again."""

    def __init__(self) -> None:
        self.is_on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: object) -> None:
        if self.is_on:
            self.seen.append(event)


RUNNING = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "pty.spawn",
}


def test_no_verb_runs_a_program(tmp_path: Path) -> None:
    watch = Watch()
    for number, path in enumerate(("plain", "$(id)", "`id`", "; id", "| id")):
        ground = a_ground(tmp_path / str(number))
        watch.is_on = True
        with ground.open() as workspace:
            for verb in VERBS:
                with suppress(ClocheError):
                    VERBS[verb](ground, workspace, path, None)
        watch.is_on = False
    assert "open" in watch.seen
    assert not RUNNING & set(watch.seen)
    watch.is_on = True
    subprocess.run(["true"], check=True)
    watch.is_on = False
    assert RUNNING & set(watch.seen)


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("path", ORDINARY)
def test_odd_names_are_names(tmp_path: Path, path: str, way: Way) -> None:
    ground = a_ground(tmp_path)
    before = ground.fingerprint()
    with ground.open(way) as workspace:
        for verb in NEEDS_WHAT_IS_THERE:
            with pytest.raises(ClocheError) as refused:
                VERBS[verb](ground, workspace, path, None)
            assert refused.value.code == "SANDBOX_FILE_NOT_FOUND"
        VERBS["write"](ground, workspace, path, None)
        assert (ground.workspace / path).read_bytes() == b"written"
        content = VERBS["read"](ground, workspace, path, None)
        assert getattr(content, "path", None) == f"/workspace/{path}"
        VERBS["remove"](ground, workspace, path, None)
    assert ground.fingerprint() == before


@pytest.mark.parametrize("way", Way)
def test_names_are_told_apart_by_their_bytes(tmp_path: Path, way: Way) -> None:
    ground = a_ground(tmp_path)
    with ground.open(way) as workspace:
        for number, path in enumerate(("\u00e9", "e\u0301")):
            VERBS["write"](ground, workspace, path, None)
            assert len(os.listdir(os.fsencode(ground.workspace))) == 3 + number


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("directory", "link/inner"),
        ("./directory/", "link/inner"),
        ("/workspace/directory", "link/inner"),
        ("/workspace//directory/./", "link/inner"),
        ("/workspace", "link/directory/inner"),
        ("directory/../directory", "link/inner"),
        ("directory/inner", "link"),
        ("/workspace/directory/inner", "link"),
        ("directory/up/directory/inner", "link"),
    ],
)
def test_a_link_that_stays_is_followed(tmp_path: Path, target: str, path: str, way: Way) -> None:
    ground = a_ground(tmp_path)
    (ground.workspace / "directory/inner").write_bytes(b"inner\n")
    (ground.workspace / "directory/up").symlink_to("..")
    (ground.workspace / "link").symlink_to(target)
    ground.give()
    with ground.open(way) as workspace:
        assert getattr(VERBS["read"](ground, workspace, path, None), "content", None) == "inner\n"
        if path != "link":
            VERBS["write"](ground, workspace, path, None)
            assert (ground.workspace / "directory/inner").read_bytes() == b"written"
