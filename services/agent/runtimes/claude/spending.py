"""What a run spends, as the CLI counts it."""

from contracts.events.agent import AgentMetrics
from services.agent.runtimes.claude.frames import MOST_AMOUNT, MOST_TOKENS, Frame, amount, count, part
from services.agent.stage import Stage


class Spending:
    """Told at the end of each turn. Where tokens are bounded, also as the model answers: a turn may have many answers.

    Whatever tells may raise `BudgetSpent`.
    """

    def __init__(self, stage: Stage, already: float = 0.0) -> None:
        """`already`: USD that the CLI counts as spent when it begins."""
        self._stage = stage
        self._total = already
        """USD, as its results have told it."""
        self.model = ""
        self.calls = 0
        """Of tools, in this turn."""
        self._asked = 0
        """Tokens of the request that is being answered."""
        self._ahead = self._metrics()
        """Told ahead of the turn's end."""

    def ask(self, usage: Frame) -> None:
        self._asked = count(usage, "input_tokens")

    async def answer(self, key: str, usage: Frame) -> None:
        asked, self._asked = self._asked, 0
        said = count(usage, "output_tokens")
        if self._stage.order.max_tokens is None:
            return
        self._ahead = self._metrics(self._ahead.input_tokens + asked, self._ahead.output_tokens + said)
        await self._stage.spend(key, self._metrics(asked, said))

    async def turn(self, key: str, frame: Frame) -> None:
        """By its result."""
        told = part(frame, "model_usage_since_last_result").values()
        cost_usd = self._since(frame)
        uses = [each for each in told if _is_use(each)] or [_as_use(frame, cost_usd)]
        ahead, self._ahead = self._ahead, self._metrics()
        calls, self.calls = self.calls, 0
        spent = AgentMetrics(
            run=self._stage.run,
            input_tokens=max(_tokens(uses, "inputTokens") - ahead.input_tokens, 0),
            output_tokens=max(_tokens(uses, "outputTokens") - ahead.output_tokens, 0),
            cache_read_tokens=_tokens(uses, "cacheReadInputTokens"),
            cache_write_tokens=_tokens(uses, "cacheCreationInputTokens"),
            cost_usd=min(sum(amount(each, "costUSD") for each in uses), float(MOST_AMOUNT)),
            turns=1,
            tool_calls=calls,
            duration_ms=amount(frame, "duration_ms"),
            model=self.model,
        )
        await self._stage.spend(key, spent)

    def _since(self, frame: Frame) -> float:
        """USD since the last result: what it tells is all that its process has spent."""
        before, self._total = self._total, max(self._total, amount(frame, "total_cost_usd"))
        return self._total - before

    def _metrics(self, asked: int = 0, said: int = 0) -> AgentMetrics:
        return AgentMetrics(run=self._stage.run, input_tokens=asked, output_tokens=said, model=self.model)


def _tokens(uses: list[Frame], field: str) -> int:
    return min(sum(count(each, field) for each in uses), MOST_TOKENS)


def _is_use(found: object) -> bool:
    return isinstance(found, dict) and "inputTokens" in found


def _as_use(frame: Frame, cost_usd: float) -> Frame:
    """Of an older CLI, which tells no sums by model."""
    usage = part(frame, "usage")
    return {
        "inputTokens": count(usage, "input_tokens"),
        "outputTokens": count(usage, "output_tokens"),
        "cacheReadInputTokens": count(usage, "cache_read_input_tokens"),
        "cacheCreationInputTokens": count(usage, "cache_creation_input_tokens"),
        "costUSD": cost_usd,
    }
