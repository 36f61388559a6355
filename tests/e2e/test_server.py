"""Who does not fit is refused with a sentence at both ends and counted; the job is not harmed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from colonnade.errors import RefusedError, RequestError
from colonnade.net import client, server
from colonnade.net import grpc as tls
from colonnade.net.link import Emulation
from colonnade.net.session import LAST, PROTOCOL, Kind, Segment
from colonnade.run.processes import free_port
from colonnade.tls.keyring import Keyring
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Failure, Hello, Terms
from tests import loop
from tests.netrun import identities
from tests.scene import case, play, scene, set_job, speak, wire

JOIN = Segment(Kind.JOIN, 0, 77, flags=PROTOCOL)


def greeting(**fields):
    def scenario(fields, said):
        async def run(s, active):
            training = s.training("p2")
            training.hello = msgspec.structs.replace(training.hello, **fields)
            error = await (await s.start("p2", training)).end()
            assert isinstance(error, RefusedError) and error.exit_code == 2
            assert said in str(error) and active.said(said)
            assert active.world.detector.refusals == {"p2": 1}

        return run

    return scenario(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rows": 47}, "p2 has 47 training, 0 validation and 16 test rows, p1 has 48 training"),
        ({"test_rows": 0}, "p2 has 48 training, 0 validation and 0 test rows"),
        ({"fingerprint": "other"}, "p2 and p1 have as many rows, but other ids or another order"),
        ({"width": 0}, "the embedding of p2 is 0 wide"),
        ({"width": 1 << 40}, "is 1099511627776 wide, and p1 takes 1 to 524288"),
        ({"party": "p0"}, "p2 did not introduce itself"),
    ],
)
def test_a_party_whose_rows_or_model_do_not_fit(fields, said):
    play(greeting(fields=fields, said=said))


def test_a_width_that_the_job_does_not_declare():
    async def whole():
        made = case()
        party = msgspec.structs.replace(made.job.parties["p2"], width=4)
        parties = {**made.job.parties, "p2": party}
        made = replace(made, job=msgspec.structs.replace(made.job, parties=parties))
        async with scene(made) as s:
            active = await s.start("p1")
            await s.start("p0")
            await greeting(fields={"width": 5}, said="p2 is 5 wide, and may be 4")(s, active)

    loop.run(whole())


def test_another_job_is_told_field_by_field_at_both_ends():
    async def run(s, active):
        error = await (await s.start("p2", job=set_job(s.job, batch_size=9, rounds=3))).end()
        assert isinstance(error, RefusedError) and error.exit_code == 2
        for said in ("train.batch_size is 9 at p2 and 8 at p1", "train.rounds is 3 at p2 and 12"):
            assert said in str(error) and active.said(said)
        assert active.world.detector.refusals == {"p2": 1}

    play(run)


def test_who_has_no_certificate_of_this_authority_is_counted(monkeypatch):
    monkeypatch.setattr(server, "HANDSHAKE_S", 1.0)

    async def run(s, active):
        grpc, mine = tls.secure_grpc(), s.known["p2"]
        other = identities(("p1", "p2", "elsewhere"))["p2"]
        foreign = replace(other, authority=mine.authority)
        stranger = await s.start("p2", identity=foreign)
        await s.until(lambda: stranger.said("see whether it accepts this party's certificate"))
        await stranger.crash()
        naked = grpc.ssl_channel_credentials(mine.authority)
        options = tls.channel_options("p1")
        async with grpc.aio.secure_channel(s.address, naked, options=options) as channel:
            call = channel.stream_stream("/colonnade.Wire/Stream")()
            with pytest.raises(grpc.aio.AioRpcError):
                await call.read()
            await tls.cancel_call(call)
        await s.until(lambda: active.world.detector.refusals.get(server.STRANGER, 0) >= 2)
        assert active.said("refused a stranger: it showed no certificate that this party trusts")

    play(run)


def test_a_party_that_the_job_does_not_name_is_refused_and_hears_no_names():
    async def run(s, active):
        for name in ("x", "p1"):
            (told,) = await speak(s.address, s.known[name], "p1", JOIN)
            assert told.kind == Kind.REFUSE
            assert "is of no passive party of this job: use the certificate" in told.text()
            assert "p0" not in told.text() and "p2" not in told.text(), "who takes part is not said"
        assert active.world.detector.refusals == {
            "the certificate of x": 1,
            "the certificate of p1": 1,
        }
        assert active.said("refused the certificate of p1: the certificate of p1 is of no passive")

    play(run, extra=("x",))


def test_a_name_that_is_connected_already_cannot_be_taken():
    async def whole():
        # Slow enough that the second comes in the midst of the first's work.
        async with scene(case(), emulation=Emulation(latency_ns=40 * 10**6)) as s:
            active, other, first = [await s.start(name) for name in ("p1", "p0", "p2")]
            await s.until(lambda: "p2" in active.world.connections)
            second = await (await s.start("p2")).end()
            assert isinstance(second, RefusedError)
            assert "p2 is connected already, from another process" in str(second)
            assert active.said("refused p2: p2 is connected already")
            s.unharmed({party.name: await party.end() for party in (active, other, first)})

    loop.run(whole())


def test_a_dead_connection_does_not_hold_a_name(monkeypatch):
    monkeypatch.setattr(server, "SIGN_OF_LIFE_S", 0.5)

    async def run(s, active):
        async with wire(s.address, s.known["p2"], "p1") as open_stream:
            call = open_stream()
            await call.write(JOIN.encode())
            await call.read()
            right = await s.start("p2")
            await s.until(lambda: right.world.agreed)
            await right.crash()

    play(run)


MALFORMED = {
    "protocol version 2 is spoken there and 1 here": [JOIN._replace(flags=2)],
    "the first word was not JOIN": [Segment(Kind.ACK)],
    "shorter than its prefix": [b"x"],
    "unknown kind 99": [JOIN, b"\x63" + bytes(33)],
    "is too large": [JOIN, Segment(Kind.DATA, 1, data=bytes(300_000))],
    "over the limit of": [JOIN, Segment(Kind.DATA, 1, total=(1 << 32) - 1, data=b"x")],
    "reaches beyond its frame": [JOIN, Segment(Kind.DATA, 1, total=1, offset=1, data=b"x")],
    "these bytes are not Colonnade's": [JOIN, Segment(Kind.DATA, 1, total=20, data=bytes(20))],
    "was acknowledged, and only 0 were sent": [JOIN, Segment(Kind.ACK, 1, acknowledged=9)],
    "a JOIN of generation 4294967295": [JOIN._replace(generation=(1 << 32) - 1, acknowledged=1)],
    "a REFUSE segment at the wrong end": [JOIN, Segment(Kind.REFUSE, data=b"no")],
    "a LEAVE segment at the wrong end": [JOIN, Segment(Kind.LEAVE, flags=1, data=b"over")],
    "a OPEN segment at the wrong end": [JOIN, Segment(Kind.OPEN, 3, 77)],
    "a FAIL segment that says more": [JOIN, Segment(Kind.FAIL, 1, data=b"no")],
    "frame has protocol version 9": [
        JOIN,
        Segment(Kind.DATA, 1, total=16, data=b"CO\x09\x01" + bytes(12)),
    ],
}


def test_bytes_that_are_no_message_of_ours():
    async def run(s, active):
        await s.until(lambda: "p0" in active.world.connections)
        for number, (said, words) in enumerate(MALFORMED.items(), 1):
            *_, told = await speak(s.address, s.known["p2"], "p1", *words)
            assert told.kind == Kind.REFUSE and said in told.text(), (said, told.text())
            assert active.world.detector.refusals["p2"] == number
            assert active.said(f"refused p2: {told.text()}") or number > 1
        assert active.said("refused p2 (3 times by now)") and active.said("(10 times by now)")
        # Larger than gRPC is told to take: it ends the stream by itself, perhaps after the answer.
        heard = await speak(s.address, s.known["p2"], "p1", JOIN, bytes(2 << 20))
        assert {segment.kind for segment in heard} <= {Kind.OPEN}
        await s.until(lambda: "p2" not in active.world.connections)

    play(run)


def data(number, message, flags=0):
    frame = bytes(Codec().encode(message))
    return Segment(Kind.DATA, 1, number, 0, flags, len(frame), 0, frame)


@pytest.mark.parametrize(
    "words",
    [
        [JOIN, Segment(Kind.FAIL, data=b"a wrong disk")],
        [JOIN, Segment(Kind.LEAVE, data=b"Ctrl-C")],
        [JOIN, Segment(Kind.DATA, 1, 0, 0, LAST, 3, 0, b"bye")],
        [JOIN, data(0, Failure("not today"))],
        [JOIN, data(0, Terms({"a": "b"})), data(1, Failure("\x1b[2J"))],
        [JOIN, data(0, Hello("p2", "another digest", 1, 1, 1)), JOIN._replace(number=78)],
    ],
)
def test_whoever_fails_before_the_first_round_may_come_again(words):
    async def run(s, active):
        await s.until(lambda: "p0" in active.world.connections)
        await speak(s.address, s.known["p2"], "p1", *words, wait_s=0.5)

    play(run)


def test_a_port_is_listened_at_once():
    async def whole():
        async with scene(case()) as s:
            active = await s.start("p1")
            with pytest.raises(RequestError, match=r"cannot listen at 127\.0\.0\.1:\d+: it is in"):
                await server.Server(active.world, Keyring(s.known["p1"])).open(s.address)

    loop.run(whole())


@pytest.mark.parametrize(("patience_ns", "said"), [(10**15, False), (0, True)])
def test_that_nobody_listens_yet_is_said_only_when_it_lasts(monkeypatch, patience_ns, said):
    monkeypatch.setattr(client, "STARTUP_GRACE_NS", patience_ns)
    tried, connect = [], client.Client._connect

    async def noted(self):
        tried.append(await connect(self))
        return tried[-1]

    monkeypatch.setattr(client.Client, "_connect", noted)

    async def whole():
        async with scene(case()) as s:
            s.address = f"127.0.0.1:{free_port()}"
            early = await s.start("p2")
            await s.until(lambda: len(tried) > 1)
            assert early.said("nobody listens") == said

    loop.run(whole())
