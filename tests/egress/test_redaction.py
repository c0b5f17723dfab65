"""Known secrets are masked in what is written down, and the record stays whole."""

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import codec
from contracts.events.command import CommandCompleted, CommandOutput, CommandStarted, Exit, Stream, Totals
from contracts.events.sandbox import SandboxCreating
from contracts.message import EventHead, Fact
from contracts.payload import pack, unpack
from contracts.proof import Proof
from contracts.spec import Isolation, Network, SandboxSpec
from infra.bus.connection import Bus
from infra.bus.reader import read
from infra.journal import Journal
from infra.secrets.masked_log import MaskingFormatter
from infra.secrets.redaction import Redactor
from infra.secrets.seams import ENOUGH, StreamMask
from infra.secrets.spellings import spellings
from tests.bus.servers import nats_in
from tests.egress.vault import SECRET, redactor_of, store_with

SPELLED: dict[str, Callable[[str], str]] = {
    "raw": str,
    "json": lambda text: json.dumps(text)[1:-1],
    "url": lambda text: quote(text, safe=""),
    "path": quote,
    "form": quote_plus,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "after one": lambda text: base64.b64encode(b"u" + text.encode()).decode(),
    "basic": lambda text: base64.b64encode(b"me:" + text.encode() + b"tail").decode(),
    "url-safe base64": lambda text: base64.urlsafe_b64encode(b"??" + text.encode()).decode(),
}

journal = Journal(Bus("nats://127.0.0.1:1", "executor", "nobody"), service="executor", node="local")


def written(fact: Fact) -> bytes:
    return journal.write("sb", fact, id="1").payload


def output(raw: bytes, offset: int = 0) -> CommandOutput:
    packed = pack(raw)
    return CommandOutput(
        exec="e", stream=Stream.STDOUT, offset=offset, size=len(raw), data=packed.data, encoding=packed.encoding
    )


def read_back(payload: bytes) -> CommandOutput:
    fact = codec.decode_fact(codec.decode_head(payload))
    assert isinstance(fact, CommandOutput)
    return fact


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_secret_is_masked_in_every_spelling_and_lengths_are_kept(tmp_path: Path, spelled: str) -> None:
    redactor = redactor_of(tmp_path, SECRET)
    text = f"before {SPELLED[spelled](SECRET)} after"
    masked = redactor.mask_text(text)
    assert len(masked) == len(text)
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    kept = [left for left, right in zip(text[7:-6], masked[7:-6], strict=True) if left == right]
    assert len(kept) <= 12, "all but the padding and the borders of base64 groups"
    masked_event = redactor.mask_event(written(output(text.encode())))
    assert read_back(masked_event).data == masked


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_around_a_secret_stay_what_they_were(before: bytes, after: bytes) -> None:
    for each in spellings([SECRET]):
        if each.found in before + after:
            return
    redactor = Redactor()
    redactor._prepared = redactor._prepared._replace(spellings=spellings([SECRET]))
    masked = redactor.mask(before + SECRET.encode() + after)
    assert masked == before + b"*" * len(SECRET) + after


def test_what_is_base64_stays_base64(tmp_path: Path) -> None:
    redactor = redactor_of(tmp_path, SECRET)
    token = base64.b64encode(b"user:" + SECRET.encode() + b":end").decode()
    decoded = base64.b64decode(redactor.mask_text(token), validate=True)
    assert decoded.startswith(b"user:")
    assert decoded.endswith(b":end")
    assert b"*" * (len(SECRET) - 2) in decoded


def test_what_a_value_for_basic_says_is_masked_too(tmp_path: Path) -> None:
    redactor = redactor_of(tmp_path, base64.b64encode(b"robot:Pass-Word-1").decode())
    told = base64.b64encode(b"robot:Pass-Word-1").decode() + " robot:Pass-Word-1 for robot: Pass-Word-1 "
    masked = redactor.mask_text(told + quote("robot:Pass-Word-1", safe=""))
    assert masked == "*" * 24 + " " + "*" * 17 + " for robot: " + "*" * 11 + " " + "*" * 19


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_bytes_that_are_no_text_are_masked_whole(tmp_path: Path, shift: int) -> None:
    raw = b"\xff\xfe" + b"x" * shift + SECRET.encode() + b"\x80"
    fact = read_back(redactor_of(tmp_path, SECRET).mask_event(written(output(raw))))
    assert unpack(fact.data, fact.encoding) == raw.replace(SECRET.encode(), b"*" * len(SECRET))


def test_a_masked_record_is_still_proven_complete(tmp_path: Path) -> None:
    redactor, proof = redactor_of(tmp_path, SECRET), Proof()
    parts = [f"key {SECRET}\n".encode(), b"\xff" + SECRET.encode(), SPELLED["json"](SECRET).encode()]
    proof.feed(1, head(redactor, CommandStarted(exec="e", argv=("echo", SECRET), cwd="/")))
    offset = 0
    for number, part in enumerate(parts):
        proof.feed(number + 2, head(redactor, output(part, offset)))
        offset += len(part)
    end = CommandCompleted(exec="e", exit=Exit(code=0), duration_ms=1, totals=Totals(stdout=offset), cause="exited")
    proof.feed(9, head(redactor, end))
    summary = proof.summary()
    assert summary.findings == ()
    assert summary.bytes == offset


def head(redactor: Redactor, fact: Fact) -> EventHead:
    payload = redactor.mask_event(written(fact))
    assert not any(each.found in payload for each in spellings([SECRET]))
    return codec.decode_head(payload)


def test_numbers_and_the_envelope_are_never_masked(tmp_path: Path) -> None:
    redactor = redactor_of(tmp_path, "1234567890123456", "executor/local")
    fact = output(b"pin 1234567890123456", offset=1234567890123456)
    payload = written(fact)
    masked = redactor.mask_event(payload)
    before, after = msgspec.json.decode(payload), msgspec.json.decode(masked)
    assert after["data"].pop("data") == "pin ****************"
    before["data"].pop("data")
    assert after == before


def test_a_plain_word_is_never_masked_since_it_would_spoil_the_record(tmp_path: Path) -> None:
    redactor = redactor_of(tmp_path, "completed", "short-1", "environment")
    payload = written(output(b"completed short-1 environment"))
    assert redactor.mask_event(payload) is payload


def test_an_event_stays_readable_where_no_star_can_stand(tmp_path: Path) -> None:
    secret = "Abcdef0123456789"
    spec = SandboxSpec(network=Network(allowed_hosts=(secret, "example.com")))
    creating = SandboxCreating(spec=spec, isolation=Isolation.LOCAL, node="local")
    masked = redactor_of(tmp_path, secret).mask_event(written(creating))
    fact = codec.decode_fact(codec.decode_head(masked))
    assert isinstance(fact, SandboxCreating)
    assert fact.spec.network.allowed_hosts == ("x" * len(secret), "example.com")


def test_without_secrets_a_message_is_passed_on_as_it_is(tmp_path: Path) -> None:
    payload = written(output(b"anything"))
    assert Redactor().mask_event(payload) is payload
    assert redactor_of(tmp_path).mask_event(payload) is payload


def test_a_new_secret_is_masked_without_a_restart_and_a_rotated_one_still_is(tmp_path: Path) -> None:
    now = 100.0
    store = store_with(tmp_path, key="first-Value-01")
    redactor = Redactor(store, lambda: now)
    assert redactor.mask(b"first-Value-01") == b"*" * 14
    store.put("key", b"second-Value-2")
    now += 1.0
    assert redactor.mask(b"first-Value-01 second-Value-2") == b"*" * 14 + b" " + b"*" * 14


@given(st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=60), st.integers(0, 30))
def test_a_secret_over_any_borders_of_chunks_shows_at_most_its_first_characters(cuts: list[int], lead: int) -> None:
    redactor = Redactor()
    redactor._prepared = redactor._prepared._replace(spellings=spellings([SECRET]))
    text = b"." * lead + SECRET.encode() + b"-and-more " + SECRET.encode() + b"!"
    stream, seen, at = StreamMask(redactor), b"", 0
    for size in [*cuts, len(text)]:
        seen += redactor.mask(stream.mask(text[at : at + size]))
        at += size
    assert len(seen) == len(text)
    assert SECRET.encode()[: ENOUGH + 1] not in seen
    assert SECRET.encode()[ENOUGH:] not in seen
    left = [a for a, b in zip(text, seen, strict=True) if a != b]
    assert len(left) >= 2 * (len(SECRET) - ENOUGH)
    assert seen.startswith(b"." * lead)
    assert b"-and-more " in seen
    assert seen.endswith(b"!")


async def test_whatever_a_service_appends_is_masked_in_the_log(tmp_path: Path) -> None:
    async with nats_in(tmp_path) as server:
        bus = await server.connect("executor")
        bus.redactor = redactor_of(tmp_path, SECRET)
        pen = Journal(bus, service="executor", node="local")
        await pen.append(pen.write("sb", output(SECRET.encode()), id="1"))
        found = [entry.data async for entry in read(bus, ["cloche.log.>"], 1, follow=False)]
    assert [read_back(each).data for each in found] == ["*" * len(SECRET)]


def test_a_services_own_words_and_tracebacks_are_masked(tmp_path: Path) -> None:
    formatter = MaskingFormatter(redactor_of(tmp_path, SECRET), "%(message)s")
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "with %s", (SECRET,), info)
    said = formatter.format(record)
    assert SECRET not in said
    assert said.startswith("with " + "*" * len(SECRET))
