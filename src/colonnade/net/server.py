"""The active party's end: a gRPC server that lets in whom the job names, and nobody else."""

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
from colonnade.net.grpc import holder, peer_certificate, secure_grpc, server_credentials
from colonnade.net.session import PROTOCOL, Kind, Segment
from colonnade.net.world import NetworkWorld
from colonnade.tls.certificate import party_of
from colonnade.tls.denial import is_denied_pem
from colonnade.tls.identity import Identity
from colonnade.tls.keyring import Keyring

SERVICE, METHOD = "colonnade.Wire", "Stream"
JOIN_S = 10
"""How long a connection may stay silent before it has said who it is."""
HANDSHAKE_S = 5
"""How long after it began a connection that has called nobody counts as a handshake that failed."""
SIGN_OF_LIFE_S = 3 * HEARTBEAT_S
"""How long a connection has to show that it lives, when another process of its name comes."""
STREAMS_PER_CONNECTION, STREAMS_PER_PARTY = 4, 4
"""How many streams may be open at once. A party needs one, and another as it dials again; what
one party holds open takes nothing from the others."""
CONNECTIONS_MAX = 512
"""How many connections may be open at once, whoever is behind them: each is a file descriptor."""
DESCRIPTORS = 256
"""So many file descriptors are left to files, whatever the connections take."""
CALLERS_MAX = 256
"""So many connections are known by their address; of older ones a new stream is a new caller."""
STRANGER = "a stranger"
NOT_A_PARTY = "is of no passive party of this job: use the certificate of one of them"
"""Whose job it is, and who the parties are, is not for a stranger to hear."""
DRAIN_S, DRAIN_MAX = 1.0, 1000
"""How long, and for how many segments, whoever was refused is still listened to."""
GRACE_S = 0.2
"""How long what was said last may take to leave, when nobody listens any more."""
OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", 1 << 20),
]
"""Both ends ask each other for a sign of life; firewalls forget connections on which none comes."""
HANDSHAKE_MAX_S, IDLE_MAX_S = 10, 10
"""How long a connection may take to show its certificate, and then to call somebody."""


def server_options(connections: int) -> list[tuple[str, int]]:
    """What gRPC is told of a server that takes so many connections at once."""
    return [
        *OPTIONS,
        ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_MAX_S * 1000)),
        ("grpc.max_connection_idle_ms", int(IDLE_MAX_S * 1000)),
        ("grpc.so_reuseport", 0),
    ]


def spare_connections() -> int:
    """How many connections leave enough file descriptors for everything else; the process is
    allowed more of them, where it can be."""
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
        """A write is under way, or was given up: gRPC takes no other."""

    async def write(self, data: bytes) -> None:
        """Hand over; waits while the other end does not read."""
        self._writing = True
        await self._context.write(data)
        self._writing = False

    async def read(self) -> bytes | None:
        """The next message; None at the end."""
        try:
            data: bytes = await self._context.read()
        except self._gone:
            # The other end is gone in the midst of a read.
            return None
        return None if data is self._aio.EOF else data

    async def refuse(self, why: str) -> None:
        """Say why this is the end, if anybody still hears it."""
        if self._writing:
            return
        with suppress(*self._gone):
            await self.write(Segment(Kind.REFUSE, data=why.encode()[:2000]).encode())

    async def drain(self) -> None:
        """Take what still comes, for a while: gRPC never frees a stream with anything unread."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                for _ in range(DRAIN_MAX):
                    if await self.read() is None:
                        return


class Server:
    """Listens for passive parties."""

    def __init__(
        self,
        world: NetworkWorld,
        keyring: Keyring | Identity,
        names: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._world = world
        self._grpc = secure_grpc()
        self._names = dict.fromkeys(world.peers, ()) | dict(names or {})
        self._handshakes: deque[float] = deque()
        """When the connections began on which nothing was called yet, oldest first."""
        self._callers: dict[str, None] = {}
        """The addresses of the connections on which something was, oldest first."""
        self._streams: Counter[str] = Counter()
        """How many are open, by party."""
        self._server = self._grpc.aio.server(options=server_options(spare_connections()))
        self._keyring = keyring if isinstance(keyring, Keyring) else Keyring(keyring)
        self._keyring.on_change = self._drop_denied
        self._shown: dict[str, bytes] = {}
        """The certificate that each party has shown last."""
        self._credentials = server_credentials(self._keyring, self._handshake_began)
        handler = self._grpc.stream_stream_rpc_method_handler(self._handle)
        self._server.add_generic_rpc_handlers(
            (self._grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )

    async def open(self, address: str) -> int:
        """Listen at an address such as `:7443` or `127.0.0.1:0`; the port."""
        # Not every machine has IPv6.
        places = [f"[::]{address}", f"0.0.0.0{address}"] if address.startswith(":") else [address]
        for place in places:
            with suppress(RuntimeError):
                port: int = self._server.add_secure_port(place, self._credentials)
                if port:
                    await self._server.start()
                    return port
        await self._server.stop(None)
        raise RequestError(
            f"cannot listen at {places[0]}: it is in use, or no address of this machine"
        )

    async def run(self) -> None:
        """Listen until cancelled."""
        try:
            while True:
                await asyncio.sleep(HEARTBEAT_S)
                self._report_failed_handshakes()
        finally:
            # Else gRPC cancels what is under way, and prints where it was.
            for connection in list(self._world.connections.values()):
                connection.retire()
            await self._server.stop(GRACE_S)

    def _handshake_began(self) -> None:
        """A TLS handshake begins; called by gRPC, in a thread of its own."""
        self._handshakes.append(time.monotonic())

    def _call_began(self, address: str) -> None:
        """A connection is through its handshake, and somebody calls on it."""
        if address in self._callers:
            return
        self._callers[address] = None
        if len(self._callers) > CALLERS_MAX:
            del self._callers[next(iter(self._callers))]
        if self._handshakes:
            self._handshakes.popleft()

    def _report_failed_handshakes(self) -> None:
        """Count the handshakes that came to nothing; gRPC tells of them in no other way."""
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
            # Nothing is awaited of whoever has so many; not even that it hears why.
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
        """The deny-list may have changed: end the connections of whoever is on it now."""
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
        """A party is connected once. Its own new connection takes the place of the old one; that
        of another process does only if the old one is dead."""
        world = self._world
        before_ns, old = world.detector.heard_of(party), world.connections.get(party)
        until = time.monotonic() + SIGN_OF_LIFE_S
        while old is not None and world.connections.get(party) is old:
            if world.roster.peers[party].incarnation == first.number:
                return
            if world.detector.heard_of(party) > before_ns or old.paused:
                raise WireError(
                    f"{party} is connected already, from another process: end that one, or this one"
                )
            if time.monotonic() > until:
                return
            await asyncio.sleep(HEARTBEAT_S / 10)
