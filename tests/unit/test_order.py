"""The order in which files of tests are begun."""

from tests.longest import LONGEST, rank
from tests.services.node import ROOT


def test_the_longest_files_are_there() -> None:
    assert [file for file in LONGEST if not (ROOT / file).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_they_come_first_in_their_order_and_the_others_stay_as_they_are() -> None:
    given = ["tests/b.py::one", f"{LONGEST[1]}::one[x::y]", "tests/a.py::one", f"{LONGEST[0]}::one"]
    assert sorted(given, key=rank) == [given[3], given[1], given[0], given[2]]
