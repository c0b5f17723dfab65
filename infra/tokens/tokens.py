"""Tokens: JSON Web Tokens that say who somebody is, what they may do, and where."""

from typing import Annotated, Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta, Struct

from contracts.access import Moment, Principal, Role, Scope, Subject
from contracts.errors import Unauthenticated
from contracts.ids import SandboxId, Token
from infra.tokens.keys import Checked

ISSUER = "cloche"
MOST_CHARACTERS = 16_384
LEEWAY_S = 10
NOT_OURS = "that is no token of this Cloche"


class Claims(Struct, frozen=True, kw_only=True):
    """Those that are ours; others may stand beside them."""

    sub: Subject
    role: Role
    # An empty scope could be meant as "nothing", and would be read as "everything".
    sandboxes: Annotated[tuple[SandboxId, ...], Meta(min_length=1, max_length=1000)] | None = None
    labels: Annotated[dict[str, str], Meta(min_length=1, max_length=50)] | None = None
    projects: Annotated[tuple[Token, ...], Meta(min_length=1, max_length=20)] | None = None
    exp: Moment | None = None


def issue(key: Ed25519PrivateKey | bytes, principal: Principal, *, now: int) -> str:
    """A token for somebody, signed with EdDSA, or HS256 where the key is a shared secret."""
    claims: dict[str, Any] = {"iss": ISSUER, "iat": now, "sub": principal.subject, "role": str(principal.role)}
    if principal.expires_at is not None:
        claims["exp"] = principal.expires_at
    if principal.scope.sandboxes:
        claims["sandboxes"] = list(principal.scope.sandboxes)
    if principal.scope.labels:
        claims["labels"] = principal.scope.labels
    if principal.scope.projects:
        claims["projects"] = list(principal.scope.projects)
    return jwt.encode(claims, key, algorithm="HS256" if isinstance(key, bytes) else "EdDSA")


def read(token: str, keys: Checked) -> Principal:
    """Whose token it is. Raises `Unauthenticated` for any that does not count, without saying more than must be."""
    if len(token) > MOST_CHARACTERS:
        raise Unauthenticated(NOT_OURS)
    try:
        claims = msgspec.convert(_claims(token, keys), Claims)
    except msgspec.ValidationError:
        raise Unauthenticated("that token does not say who may do what") from None
    return Principal(
        subject=claims.sub,
        role=claims.role,
        scope=Scope(projects=claims.projects or (), sandboxes=claims.sandboxes or (), labels=claims.labels or {}),
        expires_at=claims.exp,
    )


def check_still_good(principal: Principal, now: float) -> None:
    """For a token that was read before. Raises `Unauthenticated`."""
    if principal.expires_at is not None and principal.expires_at + LEEWAY_S <= now:
        raise _expired()


def _claims(token: str, keys: Checked) -> Any:
    for key, algorithm in _candidates(keys):
        try:
            # The algorithm is the key's, never the token's choice.
            return jwt.decode(token, key, [algorithm], issuer=ISSUER, leeway=LEEWAY_S, options={"require": ["iat"]})
        except jwt.ExpiredSignatureError:
            raise _expired() from None
        except jwt.ImmatureSignatureError:
            raise Unauthenticated("that token is not valid yet") from None
        except jwt.InvalidTokenError:
            continue
    raise Unauthenticated(NOT_OURS)


def _expired() -> Unauthenticated:
    return Unauthenticated("that token has expired: ask for another, `cloche token` makes one")


def _candidates(keys: Checked) -> list[tuple[Ed25519PublicKey | bytes, str]]:
    found: list[tuple[Ed25519PublicKey | bytes, str]] = [(key, "EdDSA") for key in keys.public]
    return found if keys.secret is None else [*found, (keys.secret, "HS256")]
