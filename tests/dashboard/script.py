"""What the agent of these tests does."""

from typing import Any

from contracts.message import JsonObject
from tests.gateway.rig import Gateway

SCRIPT = r"""
turns:
  - - think: The greeting is misspelled. I correct it, and run the tests again.
    - say: I look at the project and run its tests.
    - write: greet.py
      content: "def greet(name):\n    return f\"Helo, {name}!\"\n"
    - write: test_greet.py
      content: "from greet import greet\n\nassert greet('moon') == 'Hello, moon!', greet('moon')\nprint('1 passed')\n"
    - write: notes/plan.md
      content: "# Plan\n\n- correct the spelling\n- run the tests\n"
    - run: python3 -B test_greet.py
    - wait: {ms: 700}
    - say: There it is. I correct the spelling.
    - edit: greet.py
      old: Helo
      new: Hello
    - wait: {ms: 700}
    - run: python3 -B test_greet.py
    - run: for i in 1 2 3 4; do printf '\033[32mok\033[0m  test_%d\n' $i; done; printf '\n\033[1;32m4 passed\033[0m\n'
    - spend: {cost_usd: 0.0312, input_tokens: 4210, output_tokens: 688}
    - ask: May I publish it?
      tool: publish
      input: {command: "git push origin main"}
      steps:
        - say: Published.
      denied:
        - say: Then I leave it here.
otherwise:
  - say: "You said: ${message}"
  - run: echo waiting; sleep 600
  - say: This is never said.
"""


async def sandbox_in(gateway: Gateway, name: str, spec: JsonObject | None = None) -> None:
    await gateway.cloche.create(spec or {}, id=name)


async def begin(gateway: Gateway, name: str) -> None:
    order: dict[str, Any] = {
        "runtime": "script",
        "prompt": "Make the greeting right, and publish it when the tests pass.",
        "keep_open": True,
        "options": {"script": SCRIPT},
    }
    async with gateway.client() as client:
        answer = await client.post(f"/api/v1/sandboxes/{name}/agent?wait=30", json=order)
        assert answer.status_code == 200, answer.text
