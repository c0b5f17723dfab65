"""A trouble is told once, not again and again."""

import errno

from contracts.errors import Unavailable
from services.file_watcher.complaints import MOST, Complaints

FULL = OSError(errno.EDQUOT, "too many")
BROKEN = OSError(errno.EIO, "broken")
NO_WATCHES = Unavailable("no watches left")


def test_troubles_that_alternate_are_told_once_each() -> None:
    complaints = Complaints()
    news = [complaints.is_news(b"", trouble) for _ in range(5) for trouble in (FULL, BROKEN, NO_WATCHES)]
    assert news == [True] * 3 + [False] * 12


def test_a_trouble_that_was_over_is_news_again_but_not_at_once() -> None:
    patient, eager = Complaints(), Complaints(again_s=0)
    for complaints in (patient, eager):
        assert complaints.is_news(b"a", FULL)
        assert not complaints.is_news(b"a", FULL)
        complaints.are_well({b"a"})
    assert not patient.is_news(b"a", FULL)
    assert eager.is_news(b"a", FULL)
    assert not eager.is_news(b"a", FULL)


def test_only_what_is_over_is_news_again() -> None:
    complaints = Complaints(again_s=0)
    assert complaints.is_news(b"", FULL)
    assert complaints.is_news(b"", NO_WATCHES)
    complaints.are_well({b""}, but=[NO_WATCHES])
    complaints.are_well({b"elsewhere"})
    assert complaints.is_news(b"", FULL)
    assert not complaints.is_news(b"", NO_WATCHES)


def test_no_more_than_so_many_are_told_at_a_time() -> None:
    complaints = Complaints(again_s=0)
    paths = [str(number).encode() for number in range(MOST + 10)]
    assert sum(complaints.is_news(path, BROKEN) for path in paths) == MOST
    assert not complaints.is_news(b"another", BROKEN)
    assert complaints.is_news(b"", NO_WATCHES)
    complaints.are_well(paths[:2])
    assert complaints.is_news(b"another", BROKEN)
