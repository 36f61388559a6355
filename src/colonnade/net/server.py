"""The active party's gRPC server: it admits the passive parties of the job, and nobody else."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from colonnade.errors import RequestError, WireError
from colonnade.net.connections import HEARTBEAT_S
from colonnade.net.grpc import (
    holder,
    peer_certificate,
    secure_grpc,
    server_credentials,
    stop_server,
)
from colonnade.net.session import PROTOCOL, Kind, Segment
from colonnade.net.world import NetworkWorld
from colonnade.tls.certificate import party_of
from colonnade.tls.denial import is_denied_pem
from colonnade.tls.keyring import Keyring

SERVICE, METHOD = "colonnade.Wire", "Stream"
JOIN_S = 10
"""How long a stream may take to send JOIN."""
HANDSHAKE_S = 5
"""A connection on which no call was made for this long after it began is a failed handshake."""
SIGN_OF_LIFE_S = 3 * HEARTBEAT_S
"""How long a party's connection has to show that it is alive when another process joins as it."""
STREAMS_PER_CONNECTION, STREAMS_PER_PARTY = 4, 4
"""How many streams may be open at once. A party needs one, and a second while it reconnects; what
one party holds open takes nothing from the others."""
CONNECTIONS_MAX = 512
"""How many connections may be open at once, whosever they are: each takes a file descriptor."""
DESCRIPTORS = 256
"""How many file descriptors are kept free of connections."""
CALLERS_MAX = 256
"""How many connections are remembered by their address. A new stream on an older one counts as a
new connection."""
STRANGER = "a stranger"
NOT_A_PARTY = "is of no passive party of this job: use the certificate of one of them"
"""Says nothing of the job or its parties, which are no stranger's business."""
DRAIN_S, DRAIN_MAX = 1.0, 1000
"""For how long, and for how many segments, a refused stream is still read."""
GRACE_S = 0.2
"""How long calls in progress may take to end when the server stops."""
OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", 1 << 20),
]
"""Keepalive pings in both directions: firewalls drop connections on which nothing moves."""
HANDSHAKE_MAX_S, IDLE_MAX_S = 10, 10
"""How long a connection may take for the TLS handshake, and then to make a call."""


def server_options(connections: int) -> list[tuple[str, int]]:
    """The gRPC options of a server that accepts so many connections at once."""
    return [
        *OPTIONS,
        ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_MAX_S * 1000)),
        ("grpc.max_connection_idle_ms", int(IDLE_MAX_S * 1000)),
        ("grpc.so_reuseport", 0),
    ]


def spare_connections() -> int:
    """How many connections leave enough file descriptors for everything else.

    Raises the soft limit on file descriptors first, as far as the hard limit allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + 2 * DESCRIPTORS
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return CONNECTIONS_MAX if soft < 0 else max(min(CONNECTIONS_MAX, soft - DESCRIPTORS), 16)


class ServerStream:
    """The server's end of a gRPC stream."""

    def __init__(self, context: Any, grpc: Any) -> None:
        self._context = context
        self._aio = grpc.aio
        self._gone = (grpc.aio.UsageError, grpc.aio.InternalError)
        self._writing = False
        """A write is in progress, or was cancelled: gRPC accepts no other."""

    async def write(self, data: bytes) -> None:
        self._writing = True
        await self._context.write(data)
        self._writing = False

    async def read(self) -> bytes | None:
        try:
            data: bytes = await self._context.read()
        except self._gone:
            # The other end disconnected during the read.
            return None
        return None if data is self._aio.EOF else data

    async def refuse(self, why: str) -> None:
        """Send a REFUSE segment, if the stream can still be written to."""
        if self._writing:
            return
        with suppress(*self._gone):
            await self.write(Segment(Kind.REFUSE, data=why.encode()[:2000]).encode())

    async def drain(self) -> None:
        """Read what still comes, for a while: gRPC never frees a stream with unread messages."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                for _ in range(DRAIN_MAX):
                    if await self.read() is None:
                        return


class Server:
    """Accepts the connections of the passive parties."""

    def __init__(
        self,
        world: NetworkWorld,
        keyring: Keyring,
        names: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._world = world
        self._grpc = secure_grpc()
        self._names = dict.fromkeys(world.peers, ()) | dict(names or {})
        self._handshakes: deque[float] = deque()
        """When each TLS handshake began that has led to no call yet, oldest first."""
        self._callers: dict[str, None] = {}
        """The addresses of the connections on which a call was made, oldest first."""
        self._streams: Counter[str] = Counter()
        """How many streams each party has open."""
        self._server = self._grpc.aio.server(options=server_options(spare_connections()))
        self._keyring = keyring
        self._keyring.on_change = self._drop_denied
        self._shown: dict[str, bytes] = {}
        """The certificate of each party's newest connection."""
        self._credentials = server_credentials(self._keyring, self._handshake_began)
        handler = self._grpc.stream_stream_rpc_method_handler(self._handle)
        self._server.add_generic_rpc_handlers(
            (self._grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )

    async def open(self, address: str) -> int:
        """Listen at an address such as `:7443` or `127.0.0.1:0`; return the port."""
        # `[::]` covers IPv4 too, but not every machine has IPv6.
        places = [f"[::]{address}", f"0.0.0.0{address}"] if address.startswith(":") else [address]
        for place in places:
            with suppress(RuntimeError):
                port: int = self._server.add_secure_port(place, self._credentials)
                if port:
                    await self._server.start()
                    return port
        await stop_server(self._server, None)
        raise RequestError(
            f"cannot listen at {places[0]}: it is in use, or no address of this machine"
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                await asyncio.sleep(HEARTBEAT_S)
                self._report_failed_handshakes()
        finally:
            # The handlers end by themselves first: gRPC prints a traceback for each it cancels.
            for connection in list(self._world.connections.values()):
                connection.retire()
            await stop_server(self._server, GRACE_S)

    def _handshake_began(self) -> None:
        """Note a TLS handshake; gRPC calls this in a thread of its own, so it only appends."""
        self._handshakes.append(time.monotonic())

    def _call_began(self, address: str) -> None:
        """Note a call: the first one on a connection completes a handshake.

        gRPC does not say which handshake was whose. Since only their number matters, a call
        completes the oldest.
        """
        if address in self._callers:
            return
        self._callers[address] = None
        if len(self._callers) > CALLERS_MAX:
            del self._callers[next(iter(self._callers))]
        if self._handshakes:
            self._handshakes.popleft()

    def _report_failed_handshakes(self) -> None:
        """Count the handshakes that led to no call; gRPC does not report those that fail."""
        while self._handshakes and self._handshakes[0] < time.monotonic() - HANDSHAKE_S:
            self._handshakes.popleft()
            self._world.detector.refused(
                STRANGER, "it showed no certificate that this party trusts, or is no party at all"
            )

    async def _handle(self, requests: Any, context: Any) -> None:
        stream = ServerStream(context, self._grpc)
        self._call_began(context.peer())
        certificate = peer_certificate(context.auth_context())
        party = None if certificate is None else party_of(certificate, self._names)
        who = party or f"the certificate of {holder(certificate)}"
        if self._streams[who] >= STREAMS_PER_PARTY:
            # Refused before anything is awaited, even the write of a REFUSE segment: otherwise
            # streams over the limit could be held open by not reading.
            fault = f"it has {STREAMS_PER_PARTY} streams open already"
            self._world.detector.refused(who, fault)
            context.set_code(self._grpc.StatusCode.RESOURCE_EXHAUSTED)
            context.set_details(fault)
            return
        self._streams[who] += 1
        try:
            if certificate is None or party not in self._world.peers:
                raise WireError(f"{who} {NOT_A_PARTY}")
            self._check_denied(certificate)
            first = await self._read_join(stream)
            await self._admit(party, first)
            self._shown[party] = certificate
            await self._world.serve(party, stream, first)
        except WireError as fault:
            self._world.detector.refused(who, str(fault))
            await stream.refuse(str(fault))
            await stream.drain()
        finally:
            self._streams[who] -= 1
            self._streams += Counter()  # forgets who has none

    def _check_denied(self, certificate: bytes) -> None:
        if is_denied_pem(certificate, self._keyring.identity.denied):
            raise WireError("its certificate is on the deny-list (tls.deny): it needs a new one")

    def _drop_denied(self) -> None:
        """Close the connections whose certificates are on the deny-list now."""
        for party, connection in list(self._world.connections.items()):
            try:
                self._check_denied(self._shown[party])
            except WireError as fault:
                connection.refuse(str(fault))

    async def _read_join(self, stream: ServerStream) -> Segment:
        try:
            async with asyncio.timeout(JOIN_S):
                raw = await stream.read()
        except TimeoutError:
            raise WireError(f"nothing was said for {JOIN_S} s") from None
        if raw is None:
            raise WireError("the connection ended before a word was said")
        first = Segment.decode(raw)
        if first.kind != Kind.JOIN:
            raise WireError("the first word was not JOIN")
        if first.flags != PROTOCOL:
            raise WireError(
                f"protocol version {first.flags} is spoken there and {PROTOCOL} here: install the "
                "same release at all parties"
            )
        return first

    async def _admit(self, party: str, first: Segment) -> None:
        """Let a party's stream replace its old one, or raise a `WireError`.

        The same process may always reconnect. Another process may only if the old connection is
        dead: it could be a second start by mistake, which would take the job from the first.
        """
        world = self._world
        before_ns, old = world.detector.heard_of(party), world.connections.get(party)
        until = time.monotonic() + SIGN_OF_LIFE_S
        while old is not None and world.connections.get(party) is old:
            if world.roster.peers[party].incarnation == first.number:
                return
            # A paused connection is not read from, so that nothing is heard proves nothing.
            if world.detector.heard_of(party) > before_ns or old.paused:
                raise WireError(
                    f"{party} is connected already, from another process: end that one, or this one"
                )
            if time.monotonic() > until:
                return
            await asyncio.sleep(HEARTBEAT_S / 10)
