"""Thaws what is frozen though the log says that it runs."""

from infra.sandbox.base import Provider, SandboxState


async def thaw_untold(provider: Provider, sandbox: str) -> None:
    """Whoever froze it died before saying so: there is nothing to take back in the log. Raises what providers do."""
    seen = await provider.inspect(sandbox)
    if seen is not None and seen.state is SandboxState.PAUSED:
        await provider.resume(sandbox)
