"""Which tokens count."""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from contracts.access import Principal, Role, Scope
from contracts.errors import Invalid, Unauthenticated
from infra.configuration import load
from infra.tokens.keys import Checked, checked, own_key
from infra.tokens.tokens import MOST_CHARACTERS, check_still_good, issue, read

KEY = Ed25519PrivateKey.generate()
SECRET = b"a shared secret, long enough for any of the algorithms that could be meant"
BOTH = Checked((KEY.public_key(),), SECRET)
NOW = int(time.time())
DAY = 86_400
"""Tests may run long after they were collected."""
GOOD: dict[str, Any] = {"iss": "cloche", "iat": NOW, "sub": "alice", "role": "operator"}
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _signed(**claims: Any) -> str:
    return jwt.encode({**GOOD, **claims}, KEY, algorithm="EdDSA")


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("key", [KEY, SECRET], ids=["EdDSA", "HS256"])
def test_a_token_says_again_what_it_was_issued_for(key: Ed25519PrivateKey | bytes) -> None:
    principal = Principal(
        subject="alice@example.com",
        role=Role.VIEWER,
        scope=Scope(projects=("web",), sandboxes=("sb-1",), labels={"team": "a"}),
        expires_at=NOW + DAY,
    )
    assert read(issue(key, principal, now=NOW), BOTH) == principal


REFUSED = {
    "another key": jwt.encode(GOOD, Ed25519PrivateKey.generate(), algorithm="EdDSA"),
    "another secret": jwt.encode(GOOD, b"x" * 32, algorithm="HS256"),
    "another algorithm": jwt.encode(GOOD, SECRET, algorithm="HS512"),
    "no signature": f"{_part({'alg': 'none', 'typ': 'JWT'})}.{_part(GOOD)}.",
    "no signature, spelled otherwise": f"{_part({'alg': 'nOnE', 'typ': 'JWT'})}.{_part(GOOD)}.",
    "expired": _signed(exp=NOW - 60),
    "not valid yet": _signed(nbf=NOW + DAY),
    "issued in the future": _signed(iat=NOW + DAY),
    "another issuer": _signed(iss="elsewhere"),
    "no issuer": jwt.encode({key: GOOD[key] for key in ("iat", "sub", "role")}, KEY, algorithm="EdDSA"),
    "no time of issue": jwt.encode({key: GOOD[key] for key in ("iss", "sub", "role")}, KEY, algorithm="EdDSA"),
    "for another audience": _signed(aud="elsewhere"),
    "no subject": jwt.encode({key: GOOD[key] for key in ("iss", "iat", "role")}, KEY, algorithm="EdDSA"),
    "a subject that is no name": _signed(sub="al ice\n"),
    "a role that is none": _signed(role="root"),
    "a scope of nothing": _signed(sandboxes=[]),
    "labels of nothing": _signed(labels={}),
    "projects of nothing": _signed(projects=[]),
    "a scope that is none": _signed(sandboxes="sb-1"),
    "an end that is none": _signed(exp=1e400),
    "an end that no clock tells": _signed(exp=2**62),
    "too large": _signed(more="x" * MOST_CHARACTERS),
    "a header without an end": f"{base64.urlsafe_b64encode(b'[' * 9000).decode().rstrip('=')}.{_part(GOOD)}.x",
    "a critical header that is not known": jwt.encode(GOOD, KEY, algorithm="EdDSA", headers={"crit": ["x"], "x": 1}),
    "empty": "",
    "no token": "hello",
    "not ASCII": "ü.ü.ü",
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED.keys())
def test_a_token_does_not_count(token: str) -> None:
    with pytest.raises(Unauthenticated):
        read(token, BOTH)


def test_a_public_key_is_no_secret_to_sign_with() -> None:
    """The classic: HS256 with the bytes of the public key, for a reader that lets the token choose."""
    head, body = _part({"alg": "HS256", "typ": "JWT"}), _part(GOOD)
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(f"{head}.{body}".encode(), PEM)
    forged = f"{head}.{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    for keys in (BOTH, Checked((KEY.public_key(),), None)):
        with pytest.raises(Unauthenticated):
            read(forged, keys)


def test_a_token_that_was_good_is_no_longer_once_its_time_is_over() -> None:
    principal = read(_signed(exp=NOW + DAY), BOTH)
    check_still_good(principal, NOW + DAY)
    with pytest.raises(Unauthenticated, match="expired"):
        check_still_good(principal, NOW + DAY + 60)


def test_tokens_of_other_keys_count_where_the_settings_say_so(tmp_path: Path) -> None:
    (tmp_path / "theirs.pem").write_bytes(PEM)
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    (tmp_path / "cloche.toml").write_text(
        f"[gateway]\npublic_keys = ['{tmp_path}/theirs.pem']\nshared_secret = '{tmp_path}/secret'\n"
    )
    keys = checked(load({"CLOCHE_DATA": str(tmp_path)}))
    assert read(_signed(), keys).subject == "alice"
    assert read(jwt.encode(GOOD, SECRET, algorithm="HS256"), keys).subject == "alice"


@pytest.mark.parametrize("content", [b"short", b""])
def test_a_secret_that_could_be_guessed_is_refused_by_its_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    (tmp_path / "cloche.toml").write_text(f"[gateway]\nshared_secret = '{tmp_path}/secret'\n")
    with pytest.raises(Invalid, match=r"gateway\.shared_secret"):
        checked(load({"CLOCHE_DATA": str(tmp_path)}))


def test_all_who_ask_at_once_for_the_first_key_are_given_the_same_one(tmp_path: Path) -> None:
    settings = load({"CLOCHE_DATA": str(tmp_path)})
    with ThreadPoolExecutor(8) as pool:
        made = [each.result() for each in [pool.submit(own_key, settings) for _ in range(8)]]
    assert len({key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) for key in made}) == 1
    assert (tmp_path / "gateway" / "key.pem").stat().st_mode & 0o077 == 0
