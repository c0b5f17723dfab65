"""From settings to realms: what is shared, what is divided, and what cannot be said."""

from itertools import pairwise
from pathlib import Path

import pytest

from contracts.errors import Invalid
from infra.configuration import load
from infra.embedded.realm import Realm
from infra.embedded.users import account_name, hub_name, login_name
from infra.realms import parts, served_realms, tenants
from infra.settings import Settings, Tenant


def _settings(tmp_path: Path, text: str = "", **env: str) -> Settings:
    (tmp_path / "cloche.toml").write_text(text)
    return load({"CLOCHE_DATA": str(tmp_path), **env})


def test_an_installation_that_says_nothing_has_the_names_that_it_always_had(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    assert served_realms(settings) == (Realm(),)
    assert parts(settings) == (settings,)
    assert (hub_name(""), account_name("", "spawner"), login_name("", "spawner")) == ("CLOCHE", "SPAWNER", "spawner")


def test_tenants_are_named_in_the_settings_with_what_they_may_take(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "[realms.acme]\nmax_disk_mb = 4096\n[realms.globex]\n")
    assert tenants(settings) == ("", "acme", "globex")
    assert served_realms(settings)[1] == Realm(name="acme", limits=Tenant(max_disk_mb=4096))
    assert login_name("acme", "client") == "acme-client"


def test_a_divided_tenant_is_a_realm_for_each_partition_and_one_that_remembers_the_number(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "partitions = 2\n[realms.acme]\nmax_disk_mb = 6000\n")
    found = {realm.name: realm for realm in served_realms(settings)}
    assert list(found) == ["", "p0", "p1", "acme", "acme-p0", "acme-p1"]
    assert [name for name, realm in found.items() if not realm.has_users] == ["", "acme"]
    assert found["acme-p1"].limits.max_disk_mb == 3000


def test_what_a_host_has_once_is_shared_or_divided(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "partitions = 4\nmax_sandboxes = 10\n", CLOCHE_REALM="acme", CLOCHE_URL="nats://n")
    each = parts(settings)
    assert [part.realm for part in each] == ["acme-p0", "acme-p1", "acme-p2", "acme-p3"]
    assert [part.data for part in each] == [tmp_path / f"p{number}" for number in range(4)]
    assert {part.egress.secrets for part in each} == {tmp_path / "vault"}
    assert {part.credentials for part in each} == {tmp_path / "secrets"}
    assert {part.host_data for part in each} == {settings.host_data} == {tmp_path}, "it is one host in all of them"
    assert {part.max_sandboxes for part in each} == {3}
    assert each[0].first_uid == settings.first_uid
    assert all(part.last_uid < after.first_uid for part, after in pairwise(each))
    assert parts(_settings(tmp_path, "partitions = 4", CLOCHE_PARTITION="2"))[0].data == tmp_path / "p2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partitions = 0", "partitions"),
        ("partitions = 65", "partitions"),
        ("partitions = 4\npartition = 4", "there is no partition 4"),
        ("partitions = 4\nrealm = 'p1'", "partitions are called so"),
        ("partitions = 2\n[realms.acme-p0]", "partitions are called so"),
        ("realm = 'a.b'", "realm"),
        ("first_uid = 3000\nlast_uid = 9000", "too few"),
        ("[realms.'a/b']", "realms"),
        ("[realms.acme]\nmax_disk_mb = 1", "max_disk_mb"),
        ("partitions = 4\n[realms.acme]\nmax_disk_mb = 8191", "acme.max_disk_mb.*2048 for each of 4"),
        ("[realms.acme]\nmax_streams = 6", "max_streams"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        _settings(tmp_path, text)
