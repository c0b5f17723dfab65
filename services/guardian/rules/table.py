"""Every rule there is, by its name."""

from services.guardian.rules import (
    alternating_loop,
    budget,
    dangerous_command,
    error_storm,
    no_progress,
    outside_paths,
    repeated_call,
)
from services.guardian.rules.rule import Rule

RULES: dict[str, Rule] = {
    each.RULE.name: each.RULE
    for each in (
        repeated_call,
        alternating_loop,
        error_storm,
        no_progress,
        budget,
        dangerous_command,
        outside_paths,
    )
}
