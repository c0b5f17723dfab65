"""Histories of one sandbox that hypothesis invents: every tag, in any order, also what no version could read."""

import datetime

from hypothesis import strategies as st
from msgspec.structs import replace

from contracts import codec
from contracts.events import agent, network
from contracts.state import Sequenced
from tests.contracts.histories import CREATING, begun, completed, output, raw_head, typed
from tests.contracts.samples import EVENT_SAMPLES

RUN = "run-1"
FACTS = [
    *((tag, codec.encode(sample.data)) for tag, sample in EVENT_SAMPLES.items()),
    ("sandbox.creating", codec.encode(CREATING)),
    ("command.started", codec.encode(begun())),
    ("command.started", codec.encode(begun("y"))),
    ("command.output", codec.encode(output(b"abc", 7))),
    ("command.output", codec.encode(output(b"\xff\x00", 70, exec_id="y"))),
    ("command.input", codec.encode(typed(b"keys", 3))),
    ("command.completed", codec.encode(completed(stdout=10))),
    ("agent.message", codec.encode(agent.AgentMessage(run=RUN, text="Hel", partial=True, message="m1"))),
    ("agent.message", codec.encode(agent.AgentMessage(run=RUN, text="lo", partial=True, message="m1", offset=3))),
    ("agent.message", codec.encode(agent.AgentMessage(run=RUN, text="Hello", message="m1"))),
    ("network.denied", codec.encode(network.NetworkDenied(host="h", port=1, method="GET", reason="r", count=3))),
]
UNREADABLE = [
    ("agent.approval_requested", b'{"run":"run-1","approval":"a","tool":"t","expires_ms":99999999999999999}'),
    ("command.output", b'{"exec":"x","stream":"nowhere"}'),
    ("sandbox.stopped", b'{"reason":7}'),
    ("sandbox.teleported", b'{"to":"the moon"}'),
    ("weather.rained", b"[]"),
]
"""The first can be read, and its time is beyond all times."""
STRANGE = [
    ("network.asked", b'{"approval":"a","host":"h","port":1,"method":"GET","expires_at":"2026-01-01T00:00:00"}'),
    ("network.approved", b'{"approval":"a","host":"h","port":1,"until":"2026-01-01T00:00:00"}'),
    ("agent.metrics", b'{"run":"run-1","cost_usd":1e308}'),
    ("agent.metrics", b'{"run":"run-1","input_tokens":9223372036854775807}'),
    ("network.allowed", b'{"host":"h","port":1,"method":"GET","sent_bytes":1%b}' % (b"0" * 4000)),
    ("command.output", b'{"exec":"x","stream":"stdout","offset":0,"size":1,"data":"*","encoding":"base64"}'),
]
"""Readable, and what is made of them may not be comparable, a number, or bytes."""
EARLIEST = datetime.datetime.min.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=14)))
LATEST = datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-14)))
"""They can be written down, and in another zone they would be beyond all times."""


@st.composite
def histories(draw: st.DrawFn, most: int = 60) -> list[Sequenced]:
    """Mostly of one that exists: before that nothing is folded."""
    chosen = draw(st.lists(st.sampled_from([*FACTS, *UNREADABLE, *STRANGE]), max_size=most))
    if draw(st.booleans()):
        chosen.insert(0, ("sandbox.creating", codec.encode(CREATING)))
    gaps = draw(st.lists(st.integers(1, 5), min_size=len(chosen), max_size=len(chosen)))
    sequence = 0
    events: list[Sequenced] = []
    for (tag, data), gap in zip(chosen, gaps, strict=True):
        sequence += gap
        events.append(Sequenced(sequence, raw_head(sequence, tag, data)))
    odd = draw(st.dictionaries(st.integers(0, most), st.sampled_from([EARLIEST, LATEST]), max_size=2))
    return [
        Sequenced(each.sequence, replace(each.head, time=odd.get(at, each.head.time))) for at, each in enumerate(events)
    ]
