"""Given what was told and what was seen, then what changes."""

from contracts.changes import Difference, told
from contracts.events.file import Action, EntryKind, FileBatch, FileChange, FileCreated
from contracts.sight import Seen, Sight
from services.file_watcher.decide import (
    EVENT_BYTES,
    affected,
    entry_for,
    is_manifest_due,
    moves,
    tellings,
    text_of,
)
from services.file_watcher.told import Told


def seen(inode: int, kind: EntryKind = EntryKind.FILE, *, size: int = 1, links: int = 1) -> Seen:
    return Seen(kind, 0o644, size if kind == EntryKind.FILE else 0, 5_000, 6_000, inode, links, None)


def tree(*paths: bytes) -> Told:
    """A path that ends in a slash is a directory. Inodes count from 1."""
    made = Told({})
    for inode, path in enumerate(paths, 1):
        name = path.rstrip(b"/")
        one = seen(inode, EntryKind.DIRECTORY if path.endswith(b"/") else EntryKind.FILE)
        made.put(name, entry_for(name, one, sha256="a" * 64))
        made.saw(name, one, sure=True)
    return made


def test_what_is_gone_takes_all_beneath_it_along() -> None:
    sight = Sight()
    sight.gone = {b"d"}
    assert affected(tree(b"d/", b"d/e/", b"d/e/f", b"dd"), sight) == {b"d", b"d/e", b"d/e/f"}


def test_a_directory_that_was_only_looked_at_says_nothing_of_what_is_in_it() -> None:
    sight = Sight()
    sight.found[b"d"] = seen(1, EntryKind.DIRECTORY)
    assert affected(tree(b"d/", b"d/f"), sight) == {b"d"}


def test_what_a_listing_lacks_is_gone_unless_it_could_not_be_looked_at() -> None:
    sight = Sight()
    sight.listed = {b"d"}
    sight.troubles[b"d/closed"] = OSError()
    assert affected(tree(b"d/", b"d/gone/", b"d/gone/f", b"d/closed"), sight) == {b"d/gone", b"d/gone/f"}


def test_a_file_in_the_place_of_a_directory_ends_what_was_in_it() -> None:
    sight = Sight()
    sight.found[b"d"] = seen(9)
    assert affected(tree(b"d/", b"d/f"), sight) == {b"d", b"d/f"}


def test_a_file_with_content_is_known_again_by_its_inode() -> None:
    assert moves(tree(b"old"), {b"new": seen(1)}, {}) == {b"new": b"old"}


def test_an_empty_file_and_a_directory_are_known_again_only_if_the_kernel_said_so() -> None:
    before = tree(b"old", b"dir/")
    found = {b"new": seen(1, size=0), b"dir2": seen(2, EntryKind.DIRECTORY)}
    assert moves(before, found, {}) == {}
    assert moves(before, found, {b"new": b"old", b"dir2": b"dir"}) == {b"new": b"old", b"dir2": b"dir"}


def test_a_move_in_several_steps_and_of_a_directory_above_is_followed_back() -> None:
    before = tree(b"a/", b"a/x/")
    found = {b"c/x": seen(2, EntryKind.DIRECTORY)}
    assert moves(before, found, {b"b": b"a", b"c": b"b"}) == {b"c/x": b"a/x"}
    assert moves(before, found, {b"b": b"c", b"c": b"b"}) == {}


def test_one_change_is_its_own_event_and_many_are_batches_that_fit() -> None:
    def change(number: int) -> tuple[Difference, FileChange]:
        path = b"%d" % number + b"x" * 1000
        difference = Difference(Action.CREATED, path, entry_for(path, seen(number)))
        return difference, told(difference, "/workspace")

    assert isinstance(tellings([change(1)])[0].fact, FileCreated)
    events = tellings([change(number) for number in range(1000)])
    assert all(isinstance(event.fact, FileBatch) for event in events)
    assert sum(len(event.differences) for event in events) == 1000
    assert 1000 * 1000 / EVENT_BYTES < len(events) < 2 * 1300 * 1000 / EVENT_BYTES


def test_manifests_come_less_often_in_large_trees() -> None:
    assert not is_manifest_due(1000, 10)
    assert is_manifest_due(1001, 10)
    assert not is_manifest_due(20_000, 20_000)


def test_text_is_utf_8_without_nul() -> None:
    assert text_of("grün\n".encode()) == "grün\n"
    assert text_of(b"\xff") is None
    assert text_of(b"a\0b") is None


def test_other_names_of_a_file_are_remembered_from_when_it_had_one() -> None:
    known = tree(b"a")
    known.put(b"b", entry_for(b"b", seen(1, links=2)))
    known.saw(b"b", seen(1, links=2), sure=True)
    assert known.linked([b"a"]) == known.linked([b"b"]) == {b"a", b"b"}
    known.drop(b"b")
    assert known.linked([b"a"]) == {b"a"}
