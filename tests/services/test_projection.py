"""The read model by itself."""

from contracts import codec
from contracts.events.command import CommandStarted
from contracts.queries import ListSandboxes
from contracts.spec import SandboxSpec
from contracts.state import ARGV_CHARACTERS, SandboxState, fold
from services.replay.projection import PAGE_BYTES, Projection
from tests.contracts.histories import CREATED, CREATING, STARTED, numbered, raw_head


def state(sandbox: str, label: str = "") -> SandboxState:
    found = fold(numbered([CREATING, CREATED, STARTED]))
    assert found is not None
    spec = SandboxSpec(labels={"text": label})
    return SandboxState(
        **{**{name: getattr(found, name) for name in found.__struct_fields__}, "sandbox": sandbox, "spec": spec}
    )


def test_a_page_is_cut_before_it_outgrows_a_message_and_the_next_goes_on_behind_it() -> None:
    projection = Projection()
    for number in range(2000):
        projection.restore(state(f"sb-{number:04}", "x" * 1000))
    seen: list[str] = []
    after = None
    while True:
        page = projection.list(ListSandboxes(limit=1000, after=after))
        assert len(codec.encode(page)) < PAGE_BYTES + 10_000
        seen += [each.sandbox for each in page.sandboxes]
        if not page.more:
            break
        after = seen[-1]
    assert seen == [f"sb-{number:04}" for number in range(2000)]


def test_a_long_command_line_is_kept_in_short() -> None:
    begun = CommandStarted(exec="x", argv=("tool", "y" * 1_000_000, "never shown"), cwd="/w")
    found = fold(numbered([CREATING, CREATED, STARTED, begun]))
    assert found is not None
    argv = found.running["x"].argv
    assert argv[0] == "tool"
    assert len(" ".join(argv)) <= ARGV_CHARACTERS + 2


def test_an_event_that_cannot_be_read_leaves_the_state_as_it_was() -> None:
    projection = Projection()
    for sequence, head in numbered([CREATING, CREATED, STARTED]):
        projection.apply(sequence, head)
    before = projection.get("sb")
    projection.apply(4, raw_head(4, "sandbox.stopped", b'{"reason": 7}'))
    assert projection.get("sb") == before
    assert projection.applied == 4
