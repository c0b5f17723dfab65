"""What takes long is never all for one."""

import pytest

from contracts.access import Principal, Role
from contracts.errors import TooManyRequests
from services.gateway.access.places import Places

ALICE, BOB, CAROL = (Principal(subject=name, role=Role.VIEWER) for name in ("alice", "bob", "carol"))


def test_one_name_takes_its_share_and_others_have_theirs() -> None:
    places = Places("followers", 3, 2)
    with places.taken(ALICE), places.taken(BOB):
        with places.taken(ALICE):
            for somebody in (ALICE, CAROL):
                with pytest.raises(TooManyRequests, match="followers"):
                    places.check(somebody)
        places.check(ALICE)
        places.check(CAROL)


def test_a_place_is_free_again_however_it_was_left() -> None:
    places = Places("exports", 1, 1)
    with pytest.raises(ZeroDivisionError), places.taken(ALICE):
        raise ZeroDivisionError
    places.check(ALICE)
