"""The variables by which programs in a sandbox find the only way out of it. Pure."""

from contracts.egress import PROXY_PORT, ROUTES_PORT
from contracts.spec import NetworkMode, SandboxSpec, blocked_names

PROXY = f"http://127.0.0.1:{PROXY_PORT}"
ROUTES = f"http://127.0.0.1:{ROUTES_PORT}"
LOOPBACK = "localhost,127.0.0.1,::1"

# Each program looks for another spelling: curl takes http_proxy in small letters only, Go and npm take either.
# ALL_PROXY is no socks5h:// one: httpx refuses to start with that unless a further package is there.
PROXIES = {
    **dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"), PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), LOOPBACK),
    "NODE_USE_ENV_PROXY": "1",
    "YARN_HTTP_PROXY": PROXY,
    "YARN_HTTPS_PROXY": PROXY,
}


def route_of(secret: str) -> str:
    """The base address that stands for the secret's host."""
    return f"{ROUTES}/{secret}"


def way_out(spec: SandboxSpec) -> dict[str, str]:
    """Empty unless the network is restricted: elsewhere there is either no way out or a network of its own."""
    if spec.network.mode is not NetworkMode.RESTRICTED:
        return {}
    routes = {secret.env: route_of(secret.name) for secret in spec.secrets if secret.env}
    blocked = blocked_names(spec.environment)
    return {name: value for name, value in {**PROXIES, **routes}.items() if name not in blocked}
