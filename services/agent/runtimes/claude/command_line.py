"""How the `claude` CLI is started inside a sandbox."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from contracts.events.agent import AgentStarted
from contracts.spec import SandboxSpec
from infra.agent_tools import INSIDE
from services.agent.runtimes.claude.options import ClaudeOptions

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

CONFIG_DIR = "/tmp/.claude"  # noqa: S108 - inside, and the one place that every tier lets be written beside the workspace
MIRROR = "session-mirror"
KEY, BASE_URL = "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"
KEPT_OUTSIDE = "kept-outside-the-sandbox"
"""The CLI wants a key; egress takes this one off and puts the true one on."""
NO_ONE_ANSWERS = ("AskUserQuestion", "EnterPlanMode", "ExitPlanMode")
"""Tools that wait for a person at a terminal."""
_FIXED = {
    "CLAUDE_CONFIG_DIR": CONFIG_DIR,
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}
_FIND = f"""\
if [ -x {INSIDE}/claude ]; then exec {INSIDE}/claude "$@"; fi
command -v claude >/dev/null 2>&1 || {{ echo 'no claude in this sandbox' >&2; exit 127; }}
exec claude "$@"
"""
NOT_FOUND = 127
_SPACE = uuid.UUID("6f0d3c52-1b0f-4c1a-8f6e-2f0e9f1c7a51")


def token(*parts: str) -> str:
    """A UUID, the same for the same parts."""
    return str(uuid.uuid5(_SPACE, "\0".join(parts)))


def sdk_options(order: AgentStarted, options: ClaudeOptions) -> "ClaudeAgentOptions":
    from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions

    agents = {
        name: AgentDefinition(
            description=each.description,
            prompt=each.prompt,
            tools=None if each.tools is None else list(each.tools),
            model=each.model,
        )
        for name, each in options.agents.items()
    }
    return ClaudeAgentOptions(
        system_prompt=_system_prompt(options),  # type: ignore[arg-type]
        tools=None if options.tools is None else list(options.tools),
        disallowed_tools=[*NO_ONE_ANSWERS, *options.disallowed_tools],
        model=order.model,
        fallback_model=options.fallback_model,
        max_turns=options.max_steps,
        max_thinking_tokens=options.thinking_tokens,
        effort=options.effort,
        include_partial_messages=options.partial_messages,
        forward_subagent_text=True,
        setting_sources=list(options.setting_sources),
        agents=agents or None,
        strict_mcp_config=True,
    )


def _system_prompt(options: ClaudeOptions) -> str | dict[str, str]:
    if options.system_prompt is not None:
        return options.system_prompt
    preset = {"type": "preset", "preset": "claude_code"}
    return preset if options.append_system_prompt is None else {**preset, "append": options.append_system_prompt}


def argv(sdk: "ClaudeAgentOptions", cli: str | None, session: str, *, resume: bool, budget: float | None) -> list[str]:
    """With the arguments that the SDK itself would give."""
    from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

    chosen = {"resume": session} if resume else {"session_id": session}
    whole = replace(
        sdk,
        cli_path=cli or "claude",
        permission_prompt_tool_name="stdio",
        extra_args={**sdk.extra_args, MIRROR: None},
        max_budget_usd=budget,
        **chosen,  # type: ignore[arg-type]
    )
    # The SDK offers no other way to its own knowledge of the CLI's arguments.
    program, *arguments = SubprocessCLITransport(_Nothing(), whole)._build_command()  # noqa: SLF001
    return [program, *arguments] if cli is not None else ["/bin/sh", "-c", _FIND, "claude", *arguments]


class _Nothing:
    """A stream of prompts that has none: they come later, by the transport."""

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        raise NotImplementedError


def environment(options: ClaudeOptions, spec: SandboxSpec) -> dict[str, str]:
    values = {**_FIXED, **options.env}
    routed = any(secret.env == BASE_URL for secret in spec.secrets)
    given = KEY in spec.environment.set or KEY in spec.environment.passthrough
    return {KEY: KEPT_OUTSIDE, **values} if routed and not given else values


def project_key(workspace: str) -> str:
    """The directory of a workspace's conversations in the CLI's configuration."""
    return "".join(each if each.isascii() and each.isalnum() else "-" for each in workspace)
