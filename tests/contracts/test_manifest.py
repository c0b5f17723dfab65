import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import codec
from contracts.changes import Difference, alone, apply, changes_of, compare, relative, told
from contracts.errors import Invalid
from contracts.events.file import Action, EntryKind, FileBatch, FileChange, FileFacts, FileMoved, FileReady
from contracts.manifest import MOST_MICROS, Entry, Tree, header_of, lines, micros, read
from contracts.spelling import parts, spell, unspell
from tests.contracts.properties import calm
from tests.contracts.trees import PATHS, trees

WORKSPACE = "/workspace"
HOSTILE = [b"", b"/etc/passwd", b"../a", b"a/../b", b"a//b", b"a/", b"./a", b"a/.", b"..", b"a\x00b"]


def entry(path: bytes, **fields: object) -> Entry:
    text, encoded = spell(path)
    plain = Entry(path=text, path_bytes=encoded, kind=EntryKind.FILE, size=1, mode=0o644, sha256="s", mtime_us=1)
    return msgspec.structs.replace(plain, **fields)


@calm
@given(st.binary())
def test_any_name_survives_its_spelling(raw: bytes) -> None:
    text, encoded = spell(raw)
    assert unspell(text, encoded) == raw
    codec.encode([text, encoded])


@calm
@given(trees())
def test_a_tree_survives_its_manifest_and_always_gives_the_same_bytes(tree: Tree) -> None:
    stored = list(lines(tree, WORKSPACE))
    header, again = read(stored)
    assert again == tree
    assert header == header_of(tree, WORKSPACE)
    assert list(lines(dict(reversed(tree.items())), WORKSPACE)) == stored


@calm
@given(trees(), trees(), st.dictionaries(PATHS, PATHS, max_size=6), st.data())
def test_what_differs_between_two_trees_turns_one_into_the_other_as_events(
    old: Tree, new: Tree, guesses: dict[bytes, bytes], data: st.DataObject
) -> None:
    if old and new:
        pairs = st.tuples(st.sampled_from(sorted(new)), st.sampled_from(sorted(old)))
        guesses |= dict(data.draw(st.lists(pairs, max_size=6)))
    changes = [told(each, WORKSPACE) for each in compare(old, new, guesses)]
    cut = data.draw(st.integers(0, len(changes)))
    facts = [FileBatch(changes=tuple(changes[:cut])), *map(alone, changes[cut:])]
    tree = dict(old)
    for fact in facts:
        apply(tree, codec.decode(codec.encode(fact), type(fact)), WORKSPACE)
    assert tree == new
    assert (not changes) == (old == new)


@calm
@given(trees(), trees())
def test_an_event_that_is_applied_again_changes_nothing(old: Tree, new: Tree) -> None:
    fact = FileBatch(changes=tuple(told(each, WORKSPACE) for each in compare(old, new)))
    tree = dict(old)
    apply(tree, fact, WORKSPACE)
    apply(tree, fact, WORKSPACE)
    assert tree == new


def test_a_move_is_told_where_the_content_is_the_same_and_the_old_path_gone() -> None:
    old, moved = {b"a": entry(b"a")}, {b"b": entry(b"b")}
    guess = {b"b": b"a"}
    assert compare(old, moved, guess) == [Difference(Action.MOVED, b"b", moved[b"b"], b"a")]
    assert [each.action for each in compare(old, moved)] == [Action.DELETED, Action.CREATED]
    both = {**old, **moved}
    assert [each.action for each in compare(old, both, guess)] == [Action.CREATED]
    changed = {b"b": entry(b"b", sha256="other")}
    assert [each.action for each in compare(old, changed, guess)] == [Action.DELETED, Action.CREATED]
    over = {b"a": entry(b"a"), b"b": entry(b"b", sha256="before")}
    assert compare(over, moved, guess) == [Difference(Action.MOVED, b"b", moved[b"b"], b"a")]


def test_one_file_cannot_have_moved_to_two_places() -> None:
    new = {b"b": entry(b"b"), b"c": entry(b"c")}
    actions = [each.action for each in compare({b"a": entry(b"a")}, new, {b"b": b"a", b"c": b"a"})]
    assert actions == [Action.MOVED, Action.CREATED]


def test_what_was_a_directory_and_is_a_file_loses_its_contents_first() -> None:
    old = {b"d": entry(b"d", kind=EntryKind.DIRECTORY), b"d/x": entry(b"d/x")}
    new = {b"d": entry(b"d")}
    assert [(each.action, each.path) for each in compare(old, new)] == [
        (Action.DELETED, b"d/x"),
        (Action.MODIFIED, b"d"),
    ]


def test_a_move_without_facts_keeps_what_was_known() -> None:
    tree = {b"a": entry(b"a", mode=0o755)}
    apply(tree, FileMoved(path="/workspace/b", moved_from="/workspace/a"), WORKSPACE)
    assert tree == {b"b": entry(b"b", mode=0o755)}
    apply(tree, FileMoved(path="/workspace/c", moved_from="/workspace/never-seen"), WORKSPACE)
    assert tree == {b"b": entry(b"b", mode=0o755)}


def test_other_events_say_nothing_about_single_files() -> None:
    assert changes_of(FileReady(files=3, manifest="m")) == ()


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_could_lead_out_is_refused_wherever_it_stands(path: bytes) -> None:
    with pytest.raises(Invalid):
        parts(path)
    with pytest.raises(Invalid):
        relative(b"/workspace/" + path, WORKSPACE)
    text, encoded = spell(path)
    hostile = Entry(path=text, path_bytes=encoded, kind=EntryKind.FILE, size=0, mode=0)
    with pytest.raises(Invalid):
        read(lines({path: hostile}, WORKSPACE))
    facts = FileFacts(size=0, mode=0)
    change = FileChange(action=Action.CREATED, path=f"/workspace/{text}", facts=facts)
    with pytest.raises(Invalid):
        apply({}, FileBatch(changes=(change,)), WORKSPACE)


def test_a_path_of_another_directory_is_refused() -> None:
    for path in (b"/workspace2/a", b"/workspace", b"workspace/a", b"/etc/passwd"):
        with pytest.raises(Invalid):
            relative(path, WORKSPACE)
    assert relative(b"/a", "/") == b"a"


def test_a_manifest_that_is_cut_short_or_from_the_future_is_refused() -> None:
    stored = list(lines({b"a": entry(b"a"), b"b": entry(b"b")}, WORKSPACE))
    for broken in ([], stored[1:], stored[:-1], [*stored, stored[-1]][:2], [stored[0].replace(b":1,", b":2,", 1)]):
        with pytest.raises(Invalid):
            read(broken)
    with pytest.raises(Invalid, match="is not the name"):
        read([stored[0], b'{"path":"a","path_bytes":"!","kind":"file","size":0,"mode":0}'])


def test_a_change_that_lacks_a_part_is_refused() -> None:
    for action in (Action.CREATED, Action.MODIFIED, Action.MOVED):
        with pytest.raises(Invalid, match="lacks a part"):
            alone(FileChange(action=action, path="/workspace/a"))


def test_no_time_of_a_file_is_too_much_for_json() -> None:
    assert micros(1_700_000_000_123_456_789) == 1_700_000_000_123_456
    assert (micros(2**80), micros(-(2**80))) == (MOST_MICROS, -MOST_MICROS)
