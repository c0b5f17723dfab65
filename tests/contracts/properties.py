"""How property tests run here: without a clock, so that a busy machine fails nothing."""

from hypothesis import HealthCheck, settings

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
