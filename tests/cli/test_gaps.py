import pytest

from infra.bus.reader import Gap
from services.cli.gaps import tell_gap, tell_gap_in_json


def test_a_gap_is_a_line_for_people_and_an_object_for_programs(capfd: pytest.CaptureFixture[str]) -> None:
    tell_gap(Gap(7, 7))
    assert capfd.readouterr() == (
        "",
        "cloche: sequence 7 is missing from the log: the store has lost it. See `cloche audit`.\n",
    )
    tell_gap_in_json(Gap(7, 9))
    assert capfd.readouterr() == (
        '{"gap":{"first":7,"last":9}}\n',
        "cloche: sequences 7 to 9 are missing from the log: the store has lost them. See `cloche audit`.\n",
    )
