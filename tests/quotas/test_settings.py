"""Quotas as people write them."""

from pathlib import Path

import pytest

from contracts.errors import Invalid
from contracts.quotas import Account, Kind, Period, Quota, Quotas
from infra.configuration import load

WRITTEN = """
[quotas.project]
sandboxes = 10
cpus = 8
[quotas.projects.web]
spend_usd = 20.5
spend_per = "day"
[quotas.projects.""]
sandboxes = 0
[quotas.principals."alice@example.com"]
memory_mb = 8192
"""


def quotas_in(place: Path, text: str) -> Quotas:
    (place / "cloche.toml").write_text(text)
    return load({"CLOCHE_DATA": str(place)}).quotas


def test_without_any_nothing_is_limited_or_counted(tmp_path: Path) -> None:
    found = quotas_in(tmp_path, "")
    assert not found.limit_anything
    assert not found.limit_spending


def test_each_is_found_by_its_name_and_all_others_have_the_general_one(tmp_path: Path) -> None:
    found = quotas_in(tmp_path, WRITTEN)
    assert found.of(Account(Kind.PROJECT, "any")) == Quota(sandboxes=10, cpus=8)
    assert found.of(Account(Kind.PROJECT, "web")) == Quota(spend_usd=20.5, spend_per=Period.DAY)
    assert found.of(Account(Kind.PROJECT, "")) == Quota(sandboxes=0)
    assert found.of(Account(Kind.PRINCIPAL, "alice@example.com")) == Quota(memory_mb=8192)
    assert found.of(Account(Kind.PRINCIPAL, "web")) == Quota()
    assert found.limit_anything
    assert found.limit_spending


@pytest.mark.parametrize(
    "wrong",
    [
        "[quotas]\nsandboxes = 1",
        "[quotas.project]\nsandbox = 1",
        "[quotas.project]\nsandboxes = -1",
        "[quotas.project]\ncpus = nan",
        "[quotas.project]\nspend_usd = inf",
        '[quotas.project]\nspend_per = "week"',
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(Invalid, match="quotas"):
        quotas_in(tmp_path, wrong)
