"""Every attempt of the corpus, on every verb, by both ways of opening: refused, and nothing outside is touched."""

import os
from pathlib import Path

import msgspec
import pytest

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
    for verb in VERBS:
        ground = a_ground(tmp_path / verb, attempt)
        before = ground.fingerprint()
        try_out(ground, attempt, verb, way)
        assert ground.fingerprint() == before, verb
        assert {each.name for each in ground.host.iterdir()} <= {"workspace", "outside", "staging", "transfers"}, verb
        assert not os.listdir(ground.staging.directory), verb


def try_out(ground: Ground, attempt: Attempt, verb: str, way: Way) -> None:
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
