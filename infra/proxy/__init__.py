"""A forward proxy that knows HTTP, CONNECT, SOCKS5 and the hello of TLS, and asks a `Gate` about everything else."""

from infra.proxy.limits import Limits
from infra.proxy.port import Gate, Passage, Refused, Via, Wanted
from infra.proxy.proxy import Proxy
from infra.proxy.route import Route

__all__ = ["Gate", "Limits", "Passage", "Proxy", "Refused", "Route", "Via", "Wanted"]
