import pytest

from contracts.errors import Invalid
from services.cli.values import duration_ms, environment, inside_path, signal_number, specification


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 500), ("30s", 30_000), ("30", 30_000), ("1.5s", 1500), ("5m", 300_000), ("1h", 3_600_000)],
)
def test_durations_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 s", "1d", "1e3", "٣s"])
def test_other_durations_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match="try 500ms"):
        duration_ms(text)


def test_settings_become_a_nested_specification() -> None:
    pairs = ["resources.memory_mb=1024", "network.allowed_hosts=[]", "labels.team=core", "isolation=local"]
    assert specification(pairs) == {
        "resources": {"memory_mb": 1024},
        "network": {"allowed_hosts": []},
        "labels": {"team": "core"},
        "isolation": "local",
    }


@pytest.mark.parametrize("pairs", [["x"], ["=1"], ["a=1", "a.b=2"]])
def test_a_setting_that_cannot_be_meant_is_refused(pairs: list[str]) -> None:
    with pytest.raises(Invalid):
        specification(pairs)


def test_environment_values_may_hold_equals_signs_and_be_empty() -> None:
    assert environment(["A=b=c", "EMPTY="]) == {"A": "b=c", "EMPTY": ""}


@pytest.mark.parametrize("pair", ["A", "=x", "A-B=x", "1A=x", "A\n=x", "Ä=x", f"{'A' * 129}=x"])
def test_an_environment_pair_needs_a_name_and_an_equals_sign(pair: str) -> None:
    with pytest.raises(Invalid, match="NAME=VALUE"):
        environment([pair])


@pytest.mark.parametrize(("text", "number"), [("TERM", 15), ("sigkill", 9), ("2", 2), ("SIGUSR1", 10)])
def test_signals_have_names_and_numbers(text: str, number: int) -> None:
    assert signal_number(text) == number


@pytest.mark.parametrize("text", ["0", "65", "NOPE", ""])
def test_what_is_no_signal_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a signal"):
        signal_number(text)


def test_a_directory_inside_is_given_whole() -> None:
    assert inside_path("/workspace/src") == "/workspace/src"
    with pytest.raises(Invalid, match="such as /workspace/src"):
        inside_path("src")
