"""The active party's door: a gRPC server that lets in whom the job names, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from colonnade.errors import RequestError, WireError
from colonnade.world.certificate import party_of
from colonnade.world.identity import Identity
from colonnade.world.network import NetworkWorld
from colonnade.world.session import PROTOCOL, Kind, Segment
from colonnade.world.tls import peer_certificate, secure_grpc, server_credentials

SERVICE, METHOD = "colonnade.Wire", "Stream"
FIRST_WORD_S = 10
"""How long a connection may stay silent before it has said who it is."""
STREAMS_PER_CONNECTION = 4
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


class ServerStream:
    """The server's end of a gRPC stream."""

    def __init__(self, context: Any, end: Any) -> None:
        self._context = context
        self._end = end
        self._task = asyncio.current_task()

    async def write(self, data: bytes) -> None:
        """Hand over; waits while the other end does not read."""
        await self._context.write(data)

    async def read(self) -> bytes | None:
        """The next message; None at the end."""
        data: bytes = await self._context.read()
        return None if data is self._end else data

    def close(self) -> None:
        """End the connection now."""
        assert self._task is not None
        self._task.cancel()


class Door:
    """Listens for passive parties."""

    def __init__(
        self,
        world: NetworkWorld,
        identity: Identity,
        names: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self._world = world
        self._grpc = secure_grpc()
        self._names = dict.fromkeys(world.peers, ()) | dict(names or {})
        self._server = self._grpc.aio.server(
            options=[*OPTIONS, ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION)]
        )
        self._credentials = server_credentials(identity)
        handler = self._grpc.stream_stream_rpc_method_handler(self._handle)
        self._server.add_generic_rpc_handlers(
            (self._grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )

    async def open(self, address: str) -> int:
        """Listen at an address such as `:7443` or `127.0.0.1:0`; the port."""
        if address.startswith(":"):
            address = f"[::]{address}"
        try:
            port: int = self._server.add_secure_port(address, self._credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            raise RequestError(
                f"cannot listen at {address}: it is in use, or no address of this machine"
            )
        await self._server.start()
        return port

    async def run(self) -> None:
        """Listen until cancelled."""
        try:
            await self._server.wait_for_termination()
        finally:
            await self._server.stop(GRACE_S)

    async def _handle(self, requests: Any, context: Any) -> None:
        stream = ServerStream(context, self._grpc.aio.EOF)
        party, certificate = None, peer_certificate(context.auth_context())
        if certificate is not None:
            party = party_of(certificate, self._names)
        who = party or "a certificate of no party"
        try:
            if party not in self._world.peers:
                raise WireError(f"{who} is no passive party of this job")
            first = await self._first_word(stream)
            await self._admit(party, first)
            await self._world.serve(party, stream, first)
        except WireError as fault:
            self._world.watch.refused(who, str(fault))
            await context.write(Segment(Kind.REFUSE, data=str(fault).encode()[:2000]).encode())
        except self._grpc.aio.UsageError:
            # The other end is gone in the midst of a read.
            return

    async def _first_word(self, stream: ServerStream) -> Segment:
        try:
            raw = await asyncio.wait_for(stream.read(), FIRST_WORD_S)
        except TimeoutError:
            raise WireError(f"nothing was said for {FIRST_WORD_S} s") from None
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
        """A party is connected once; its own new connection takes the place of the old one."""
        old = self._world.outlets.get(party)
        if old is None:
            return
        same = self._world.roster.peers[party].incarnation == first.number
        if not same and not self._world.watch.silent(party):
            raise WireError(f"{party} is connected already")
        old.stream.close()
        await asyncio.sleep(0)
