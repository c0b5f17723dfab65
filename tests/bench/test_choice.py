import pytest

from contracts.errors import Invalid
from services.cli.bench.choice import DOCKER, HISTORY, LARGE_LOG, LOCAL, NAMES, PAGE, SWE_REX, Choice


def test_without_a_choice_everything_that_can_be_run_is_run() -> None:
    nothing, everything = Choice(), Choice(image="an-image", browser="/a/chromium", swe_rex="/a/python")
    assert nothing.local() == LOCAL
    assert nothing.docker() == {}
    assert nothing.history() == HISTORY
    assert len(everything.local()) == len(LOCAL) + 2
    assert everything.docker() == DOCKER
    assert all(everything.wants(name) for name in NAMES)


def test_only_what_was_named_is_run() -> None:
    choice = Choice(only=("round-trip", "docker-claim"), image="an-image", swe_rex="/a/python")
    choice.check()
    assert list(choice.local()) == ["round-trip"]
    assert list(choice.docker()) == ["docker-claim"]
    assert not choice.wants(LARGE_LOG)
    assert choice.history() == {}
    assert choice.lacking(engine=True) == []


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("docker-exec", "--docker IMAGE"),
        (PAGE, "install Chromium"),
        (SWE_REX, "--swe-rex PYTHON"),
        ("speed", "large-log"),
    ],
)
def test_a_benchmark_that_cannot_be_run_says_what_it_needs(name: str, needs: str) -> None:
    with pytest.raises(Invalid, match=needs):
        Choice(only=(name,)).check()


def test_figures_that_are_missing_have_a_line_that_says_how_to_get_them() -> None:
    docker, page, rex = Choice().lacking(engine=True)
    assert "cloche bench --docker IMAGE" in docker
    assert "install Chromium" in page
    assert "uv sync --group bench" in rex
    assert Choice().lacking(engine=False) == [page, rex]
    assert Choice(image="an-image", browser="/a/chromium", swe_rex="/a/python").lacking(engine=True) == []
