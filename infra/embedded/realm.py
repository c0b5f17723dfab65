"""One realm, as the configuration of a server sees it."""

from msgspec import Struct

from infra.embedded import users
from infra.settings import Tenant

OPEN = Tenant(max_connections=None, max_subscriptions=None)
"""Of whoever runs the servers."""


class Realm(Struct, frozen=True, kw_only=True):
    """A whole Cloche of its own: a hub with the streams, and an account for each user."""

    name: str = ""
    """Empty = the one that every installation has."""
    limits: Tenant = OPEN
    has_users: bool = True
    """False = its hub alone, where the number of partitions is kept."""

    @property
    def logins(self) -> dict[str, str]:
        """What each of its users logs in as. The system's own account is no realm's, and kept with the unnamed one."""
        names = [*(users.FAMILIES if self.has_users else ()), users.ADMIN, *(() if self.name else (users.SYSTEM,))]
        return {name: users.login_name(self.name, name) for name in names}
