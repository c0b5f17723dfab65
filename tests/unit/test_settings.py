"""Settings come from one file and the environment, and say what is wrong with them."""

from pathlib import Path

import pytest

from contracts.errors import Invalid
from infra.configuration import load
from infra.settings import Durability


def env(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), **more}


def test_the_defaults_need_no_file(tmp_path: Path) -> None:
    settings = load(env(tmp_path))
    assert settings.data == tmp_path / ".local" / "state" / "cloche"
    assert settings.durability == Durability.DISK
    assert (settings.node, settings.port, settings.url) == ("local", 0, None)


def test_the_state_directory_of_the_user_is_respected(tmp_path: Path) -> None:
    assert load(env(tmp_path, XDG_STATE_HOME=str(tmp_path / "s"))).data == tmp_path / "s" / "cloche"


def test_the_file_in_the_data_directory_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "cloche.toml").write_text(
        'node = "from-file"\ndurability = "process"\nmax_sandboxes = 7\n'
        "[limits]\nlog_max_bytes = 1000\n[sandbox.resources]\nmemory_mb = 1024\n"
    )
    settings = load(env(tmp_path, CLOCHE_DATA=str(tmp_path), CLOCHE_NODE="from-env"))
    assert (settings.node, settings.durability, settings.max_sandboxes) == ("from-env", "process", 7)
    assert settings.limits.log_max_bytes == 1000
    assert settings.sandbox.resources.memory_mb == 1024


def test_a_chosen_file_may_name_the_data_directory(tmp_path: Path) -> None:
    chosen = tmp_path / "own.toml"
    chosen.write_text(f'data = "{tmp_path}/elsewhere"\n')
    assert load(env(tmp_path, CLOCHE_CONFIG=str(chosen))).data == tmp_path / "elsewhere"


def test_every_variable_is_taken(tmp_path: Path) -> None:
    settings = load(
        env(
            tmp_path,
            CLOCHE_PORT="4222",
            CLOCHE_URL="nats://h:1",
            CLOCHE_CREDS="/c",
            CLOCHE_DURABILITY="process",
            CLOCHE_MAX_SANDBOXES="3",
        )
    )
    assert (settings.port, settings.url, settings.credentials) == (4222, "nats://h:1", Path("/c"))
    assert (settings.durability, settings.max_sandboxes) == ("process", 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLOCHE_PORT", "x"),
        ("CLOCHE_PORT", "70000"),
        ("CLOCHE_DURABILITY", "never"),
        ("CLOCHE_NODE", "a.b"),
        ("CLOCHE_MAX_SANDBOXES", "0"),
        ("CLOCHE_CONFIG", "/does/not/exist"),
    ],
)
def test_a_bad_variable_is_named(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(Invalid, match=name):
        load(env(tmp_path, **{name: value}))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nodes = 1", "nodes"),
        ('port = "4222"', "port"),
        ("[limits]\nlog_max_age = 1", "log_max_age"),
        ("[sandbox.resources]\nmemory_mb = 1", "memory_mb"),
        ("nonsense", "cloche.toml"),
    ],
)
def test_a_bad_line_of_the_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "cloche.toml").write_text(text)
    with pytest.raises(Invalid, match=named):
        load(env(tmp_path, CLOCHE_DATA=str(tmp_path)))
