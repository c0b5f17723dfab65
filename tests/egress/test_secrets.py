"""The node's store of credentials: closed to others, read anew, never shown."""

from pathlib import Path

import msgspec
import pytest

from contracts.errors import ContextMissing, Invalid
from contracts.spec import SandboxSpec, Secret, merge
from infra.proxy.port import Refused
from infra.secrets.redaction import Redactor
from infra.secrets.store import SecretStore
from infra.secrets.value import MAX_BYTES
from services.cli.secret_values import secrets_of
from services.egress.secret_routes import routes_of
from tests.cli.shell import Shell
from tests.egress.vault import SECRET, store_with


def test_a_secret_comes_from_its_file_then_from_the_environment(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "vault", {"CLOCHE_SECRET_MY_KEY": "from-env", "CLOCHE_SECRET_OTHER": "x"})
    assert store.read("my_key") == "from-env"
    store.put("my_key", b"from-file\n")
    assert store.read("my_key") == "from-file"
    assert [(each.name, each.origin) for each in store.known()] == [
        ("my_key", "file"),
        ("other", "environment (CLOCHE_SECRET_OTHER)"),
    ]


def test_a_changed_file_is_read_at_once(tmp_path: Path) -> None:
    store = store_with(tmp_path, key="one")
    assert store.read("key") == "one"
    store.put("key", b"two")
    assert store.read("key") == "two"
    store.remove("key")
    with pytest.raises(ContextMissing, match="cloche secret set key"):
        store.read("key")


def test_files_and_directory_are_the_owners_alone(tmp_path: Path) -> None:
    store = store_with(tmp_path, key="value")
    assert store.directory.stat().st_mode & 0o777 == 0o700
    assert (store.directory / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("path", "mode"), [("key", 0o640), ("key", 0o604), (".", 0o750), (".", 0o701)])
def test_what_others_can_reach_is_refused_with_the_way_to_mend_it(tmp_path: Path, path: str, mode: int) -> None:
    store = store_with(tmp_path, key="value-1")
    (store.directory / path).chmod(mode)
    with pytest.raises(Invalid, match="chmod") as caught:
        store.read("key")
    assert "value-1" not in str(caught.value)
    assert store.values() == []
    trouble = store.known()[0].trouble
    assert trouble is not None
    assert "chmod" in trouble


@pytest.mark.parametrize(
    "value", [b"", b"\n", b"two\nlines", b"a\0b", b"tab\there", b" lead", b"caf\xe9", b"x" * (MAX_BYTES + 1), b"a\r\nb"]
)
def test_what_cannot_be_sent_in_a_header_is_refused_without_being_shown(tmp_path: Path, value: bytes) -> None:
    store = store_with(tmp_path)
    with pytest.raises(Invalid, match="one line of printable ASCII") as caught:
        store.put("key", value)
    assert caught.value.details == {}
    store.put("key", b"good")
    (store.directory / "key").write_bytes(value)
    with pytest.raises(Invalid, match="one line of printable ASCII"):
        store.read("key")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a.hosts", "x" * 65, "-x"])
def test_no_name_leads_out_of_the_store(tmp_path: Path, name: str) -> None:
    store = store_with(tmp_path, key="value")
    for act in (store.read, store.remove, lambda each: store.put(each, b"value")):
        with pytest.raises(Invalid, match="no name of a secret"):
            act(name)


def test_a_secret_bound_to_hosts_is_given_for_no_other(tmp_path: Path) -> None:
    store = store_with(tmp_path)
    store.put("key", SECRET.encode(), ["api.example.com", "b.example.com"])
    assert store.read("key", "b.example.com") == SECRET
    with pytest.raises(Invalid, match=r"api\.example\.com, b\.example\.com only, not to evil\.example") as caught:
        store.read("key", "evil.example")
    assert SECRET not in str(caught.value)
    (store.directory / "key.hosts").write_bytes(b"{")
    with pytest.raises(Invalid, match="not a list of hosts"):
        store.read("key", "b.example.com")


def test_a_rotated_secret_stays_bound_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    store = store_with(tmp_path)
    store.put("key", b"value-1", ["api.example.com"])
    store.put("key", b"value-2")
    assert store.read("key", "api.example.com") == "value-2"
    with pytest.raises(Invalid, match=r"api\.example\.com only"):
        store.read("key", "evil.example")
    store.put("key", b"value-3", ["b.example.com"])
    assert store.hosts("key") == ("b.example.com",)
    store.put("key", b"value-4", [])
    assert store.read("key", "evil.example") == "value-4"


@pytest.mark.parametrize("broken", [b"{", b"[]", b"null", b'["a", 1]'])
def test_a_binding_that_cannot_be_read_lets_a_secret_go_nowhere_and_is_still_masked(
    tmp_path: Path, broken: bytes
) -> None:
    store = store_with(tmp_path, key="Value-0123456789")
    (store.directory / "key.hosts").write_bytes(broken)
    (store.directory / "key.hosts").chmod(0o600)
    for act in (lambda: store.read("key", "a"), lambda: store.put("key", b"value")):
        with pytest.raises(Invalid, match="not a list of hosts"):
            act()
    assert store.values() == ["Value-0123456789"]
    store.put("key", b"value", ["a"])
    assert store.read("key", "a") == "value"


@pytest.mark.parametrize("name", ["GITHUB-KEY", "github-key", "GitHub_Key", "GITHUB_KEY"])
def test_a_variable_is_to_be_had_by_one_name_only(tmp_path: Path, name: str) -> None:
    store = SecretStore(tmp_path / "vault", {"CLOCHE_SECRET_GITHUB_KEY": "of-the-Environment-1"})
    store.put("github_key", b"of-the-File-1", ["api.github.com"])
    with pytest.raises(ContextMissing, match="CLOCHE_SECRET_GITHUB_KEY is the secret 'github_key'"):
        store.read(name, "evil.example")
    with pytest.raises(Invalid, match=r"api\.github\.com only"):
        store.read("github_key", "evil.example")


def test_a_variable_is_bound_by_another_one(tmp_path: Path) -> None:
    env = {"CLOCHE_SECRET_KEY": "of-the-Environment-1", "CLOCHE_HOSTS_KEY": "API.example.com., b.example.com"}
    store = SecretStore(tmp_path / "vault", env)
    assert store.read("key", "api.example.com") == "of-the-Environment-1"
    assert store.known()[0].hosts == ("api.example.com", "b.example.com")
    with pytest.raises(Invalid, match=r"b\.example\.com only"):
        store.read("key", "evil.example")
    for broken in ("", "a,", "not a host"):
        with pytest.raises(Invalid, match="CLOCHE_HOSTS_KEY is not a list of hosts"):
            SecretStore(tmp_path / "vault", {**env, "CLOCHE_HOSTS_KEY": broken}).read("key", "a")


def test_every_value_is_masked_also_one_that_no_name_leads_to(tmp_path: Path) -> None:
    hidden = {
        "CLOCHE_SECRET_KEY": "Behind-the-file-1",
        "CLOCHE_SECRET_": "Nameless-value-2",
        "CLOCHE_SECRET_x": "Lower-3-3",
    }
    store = SecretStore(tmp_path / "vault", hidden)
    store.put("key", b"Of-the-file-4")
    told = " ".join([*hidden.values(), "Of-the-file-4"])
    assert set(Redactor(store).mask_text(told)) == {"*", " "}
    assert [each.name for each in store.known()] == ["key"]


def test_those_inside_are_told_a_name_and_a_remedy_and_nothing_of_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_with(tmp_path, open="value-1", bound="value-2", late="value-3")
    store.put("bound", b"value-2", ["internal.example.com"])
    (store.directory / "open").chmod(0o644)
    store.remove("late")
    names = ("open", "bound", "late")
    routes = routes_of(SandboxSpec(secrets=tuple(Secret(name=name, host="evil.example") for name in names)), store)
    told = {}
    for _ in range(3):
        for name in names:
            with pytest.raises(Refused) as caught:
                routes[name].secret()
            told[name] = caught.value.reason
    assert told == {
        "open": "secret 'open' cannot be used for this host: `cloche secret ls` says why",
        "bound": "secret 'bound' cannot be used for this host: `cloche secret ls` says why",
        "late": "this node has no secret 'late': give it with `cloche secret set late`",
    }
    assert len(caplog.messages) == len(names), "once each, however often it is asked"
    assert f"chmod 600 {store.directory}/open" in caplog.text
    assert "internal.example.com" in caplog.text


def test_nothing_that_is_told_of_the_store_holds_a_value(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "vault", {"CLOCHE_SECRET_OTHER": SECRET + "2"})
    store.put("key", SECRET.encode())
    assert SECRET not in repr(store) + repr(store.known()) + repr(store.mark())


def test_the_command_line_keeps_names_and_forgets_without_showing_a_value(tmp_path: Path) -> None:
    cloche = Shell(tmp_path / "data", CLOCHE_SECRET_OTHER="from-the-Environment")
    said = cloche("secret", "set", "key", "--host", "API.Example.com.", stdin=SECRET.encode() + b"\n")
    assert (said.code, said.out, said.err) == (0, b"key\n", b"")
    assert SecretStore(tmp_path / "data" / "vault", {}).read("key", "api.example.com") == SECRET
    listed = cloche("secret", "ls")
    assert [line.split()[0] for line in listed.out.splitlines()] == [b"key", b"other"]
    assert b"api.example.com" in listed.out
    assert SECRET.encode() not in listed.out + listed.err
    rotated = cloche("secret", "set", "key", stdin=b"another-Value-1")
    assert rotated.err == b"  for api.example.com only, as before; --any-host would lift that\n"
    assert b"api.example.com" in cloche("secret", "ls").out
    assert cloche("secret", "set", "key", "--any-host", stdin=b"another-Value-2").err == b""
    assert cloche("secret", "ls").out.count(b"any host") == 2
    assert cloche("secret", "rm", "key").code == 0
    again = cloche("secret", "rm", "key")
    assert (again.code, again.err) == (2, b"cloche: this node has no secret 'key'\n")
    assert cloche("secret", "rm", "other").err.endswith(b"unset CLOCHE_SECRET_OTHER\n")


def test_a_secret_of_the_command_line_is_one_of_the_specification() -> None:
    given = secrets_of(["a=api.example.com:8443,env=A_URL,header=x-api-key,template={secret}", "b=b.example.com"])
    spec = merge(SandboxSpec(), msgspec.json.encode({"secrets": given}))
    assert spec.secrets == (
        Secret(name="a", host="api.example.com", port=8443, env="A_URL", header="x-api-key", template="{secret}"),
        Secret(name="b", host="b.example.com"),
    )


@pytest.mark.parametrize("text", ["", "a", "a=", "a=h:x", "a=h,unknown=1", "a=h,env"])
def test_what_is_no_secret_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match=r"NAME=HOST|sandbox specification"):
        merge(SandboxSpec(), msgspec.json.encode({"secrets": secrets_of([text])}))
