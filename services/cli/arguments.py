"""The words of a command line, sorted before typer reads them."""

from typing import Any

from typer.core import TyperCommand, TyperOption


class SandboxThenCommand(TyperCommand):
    """`SANDBOX [options] -- CMD…`: options may stand on either side of the sandbox, the rest is the command."""

    # typer keeps the class of its contexts to itself.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = self._options_end(args)
        if first == len(args) or args[first] == "--":
            return super().parse_args(ctx, args)
        sandbox, rest = args[first], args[first + 1 :]
        second = self._options_end(rest)
        command = rest[second + 1 :] if rest[second : second + 1] == ["--"] else rest[second:]
        return super().parse_args(ctx, [*args[:first], *rest[:second], "--", sandbox, *command])

    def _options_end(self, args: list[str]) -> int:
        """Where the options at the start of `args` and their values are over."""
        options = [each for each in self.params if isinstance(each, TyperOption) and not each.is_flag]
        with_value = {name for each in options for name in each.opts}
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
            at += 2 if args[at] in with_value else 1
        return min(at, len(args))
