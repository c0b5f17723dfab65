from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import registry, subjects
from contracts.errors import Invalid
from tests.contracts.properties import calm

TOKENS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", fullmatch=True)
HOSTILE = [
    "", ".", "a.b", "*", ">", "a*", "a b", " a", "a\t", "a\n", "\na", "a\r\n", "é", "ａ", "a\x00", "-a", "_a", "_",
    "a/b", "..", "a" * 65, "a" * 64 + "\n", "$JS", "\ud800",
]  # fmt: skip
VERBS = st.sampled_from([(family, verb) for family, verbs in subjects.VERBS.items() for verb in verbs])
KINDS = st.sampled_from([(family, kind) for family, kinds in subjects.FAMILIES.items() for kind in kinds])


@calm
@given(TOKENS, TOKENS, VERBS)
def test_a_command_subject_is_parsed_back(node: str, sandbox: str, tag: tuple[str, str]) -> None:
    built = subjects.command(node, sandbox, *tag)
    assert subjects.parse_command(built) == (node, sandbox, *tag)
    assert subjects.sandbox_of(built) == sandbox


@calm
@given(TOKENS, KINDS, st.none() | TOKENS)
def test_an_event_subject_is_parsed_back(sandbox: str, tag: tuple[str, str], scope: str | None) -> None:
    built = subjects.event(sandbox, ".".join(tag), scope)
    assert subjects.parse_event(built) == (sandbox, *tag, scope)
    assert subjects.sandbox_of(built) == sandbox


@calm
@given(st.text(max_size=70))
def test_a_sandbox_name_either_survives_the_subject_or_is_refused(name: str) -> None:
    try:
        built = subjects.create(name)
    except Invalid:
        return
    assert subjects.parse_command(built) == ("any", name, "sandbox", "create")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_token_is_refused_wherever_it_stands(text: str) -> None:
    builders: tuple[Callable[[], str], ...] = (
        lambda: subjects.command(text, "sb", "sandbox", "stop"),
        lambda: subjects.command("n", text, "sandbox", "stop"),
        lambda: subjects.command_filter(text, "sandbox"),
        lambda: subjects.create(text),
        lambda: subjects.event("sb", "command.output", text),
        lambda: subjects.vitals(text, "heartbeat"),
        lambda: subjects.rpc("files", text, "sb", "read"),
        lambda: subjects.rpc("files", "n", text, "read"),
        lambda: subjects.replayed(text, "cloche.log.sb.sandbox.created"),
        lambda: subjects.dead_letter("sb", "executor", text),
    )
    for build in builders:
        with pytest.raises(Invalid, match="is not a name"):
            build()


@pytest.mark.parametrize("text", [text for text in HOSTILE if text != subjects.NO_SANDBOX])
def test_an_event_of_a_sandbox_with_a_hostile_name_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a name"):
        subjects.event(text, "sandbox.created")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_command_subject_with_a_hostile_token_is_not_parsed(text: str) -> None:
    for subject in (f"cloche.cmd.{text}.sb.sandbox.stop", f"cloche.cmd.n.{text}.sandbox.stop"):
        with pytest.raises(Invalid):
            subjects.parse_command(subject)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "cloche",
        "cloche.cmd.n.sb.sandbox",
        "cloche.cmd.n.sb.sandbox.stop.now",
        "cloche.cmd.n.sb.sandbox.explode",
        "cloche.cmd.n.sb.sandbox.stop\n",
        "cloche.cmd.n.sb.garden.stop",
        "cloche.cmd.n.sb.command.create",
        "cloche.log.n.sb.sandbox.stop",
        "other.cmd.n.sb.sandbox.stop",
    ],
)
def test_what_is_not_a_command_subject_is_refused(subject: str) -> None:
    with pytest.raises(Invalid):
        subjects.parse_command(subject)


@pytest.mark.parametrize("subject", ["", "cloche.log.sb.sandbox", "cloche.log.a.b.c.d.e", "cloche.cmd.a.b.c"])
def test_what_is_not_a_log_subject_is_refused(subject: str) -> None:
    with pytest.raises(Invalid):
        subjects.parse_event(subject)


def test_a_refusal_names_the_verbs_that_there_are_and_stays_short() -> None:
    with pytest.raises(Invalid, match="one of run, input, signal, resize"):
        subjects.parse_command("cloche.cmd.n.sb.command.fly")
    with pytest.raises(Invalid) as refused:
        subjects.parse_command("cloche.cmd.n.sb.command." + "x" * 1_000_000)
    assert len(refused.value.message) < 500


@calm
@given(st.text() | st.lists(st.text(max_size=5), max_size=8).map(".".join))
def test_the_sandbox_of_any_text_is_a_name_or_the_placeholder(text: str) -> None:
    for subject in (text, f"cloche.cmd.{text}", f"cloche.log.{text}"):
        found = subjects.sandbox_of(subject)
        assert found == subjects.NO_SANDBOX or subjects.create(found)


def test_a_dead_letter_finds_a_place_even_without_a_sandbox() -> None:
    built = subjects.dead_letter(subjects.NO_SANDBOX, "executor")
    assert built == "cloche.log._.dead_letter.executor"
    assert subjects.parse_event(built) == ("_", "dead_letter", "executor", None)


def test_families_and_verbs_are_those_of_the_registry() -> None:
    assert [f"{family}.{kind}" for family, kinds in subjects.FAMILIES.items() for kind in kinds] == list(
        registry.EVENTS
    )
    assert [f"{family}.{verb}" for family, verbs in subjects.VERBS.items() for verb in verbs] == list(registry.COMMANDS)


def test_filters_by_type_take_tags_and_families_and_nothing_that_widens_them() -> None:
    assert subjects.typed("sb", []) == ["cloche.log.sb.>"]
    assert subjects.typed("sb", ["file", "command.output"]) == [
        "cloche.log.sb.file.>",
        "cloche.log.sb.command.output",
        "cloche.log.sb.command.output.*",
    ]
    for hostile in ("", "*", ">", "command.>", "command.*", "command.output.>", "command.out put"):
        with pytest.raises(Invalid, match="is not a name"):
            subjects.typed("sb", [hostile])


def test_a_request_about_a_worktree_is_parsed_as_it_was_built() -> None:
    built = subjects.rpc("git", "n", "sb", "diff")
    assert built == "cloche.rpc.n.sb.git.diff"
    assert subjects.parse_rpc("git", built) == ("n", "sb", "diff")
    assert subjects.rpc_filter("git", "n") == "cloche.rpc.n.*.git.*"
    for hostile in ("cloche.rpc.n.sb.files.read", "cloche.rpc.n.sb.git", "cloche.rpc.n.*.git.diff", f"{built}.x"):
        with pytest.raises(Invalid):
            subjects.parse_rpc("git", hostile)


def test_filters_cover_the_events_that_they_are_for() -> None:
    assert subjects.events_of("sb") == ["cloche.log.sb.>"]
    assert subjects.events_of("sb", family="command") == ["cloche.log.sb.command.>"]
    assert subjects.events_of("sb", family="command", scope="x") == ["cloche.log.sb.command.*.x"]
    assert subjects.events_of(family="sandbox", kind="created") == [
        "cloche.log.*.sandbox.created",
        "cloche.log.*.sandbox.created.*",
    ]


def test_a_request_about_files_is_parsed_as_it_was_built() -> None:
    assert subjects.parse_rpc("files", subjects.rpc("files", "n", "sb", "read")) == ("n", "sb", "read")
    assert subjects.rpc_filter("files", "n") == "cloche.rpc.n.*.files.*"
    for hostile in (
        "cloche.rpc.n.sb.files",
        "cloche.rpc.n.sb.git.read",
        "cloche.rpc.n.*.files.read",
        "a.b.c.d.files.e",
    ):
        with pytest.raises(Invalid):
            subjects.parse_rpc("files", hostile)
