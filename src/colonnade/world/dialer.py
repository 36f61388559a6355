"""A passive party's way to the active one: it dials out, and dials again."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from colonnade.errors import PartyError
from colonnade.world.door import METHOD, OPTIONS, SERVICE
from colonnade.world.identity import Identity
from colonnade.world.network import NetworkWorld
from colonnade.world.proxy import proxy_option
from colonnade.world.tls import channel_credentials, channel_options, explain, secure_grpc

PAUSE_S, PAUSE_MAX_S = 0.1, 5.0
"""Between two tries; twice as long each time, until a connection holds."""


class ClientStream:
    """The client's end of a gRPC stream."""

    def __init__(self, call: Any, end: Any) -> None:
        self._call = call
        self._end = end

    async def write(self, data: bytes) -> None:
        """Hand over; waits while the other end does not read."""
        await self._call.write(data)

    async def read(self) -> bytes | None:
        """The next message; None at the end."""
        data: bytes = await self._call.read()
        return None if data is self._end else data

    def close(self) -> None:
        """End the connection now."""
        self._call.cancel()


class Dialer:
    """Keeps a connection to the active party."""

    def __init__(
        self, world: NetworkWorld, identity: Identity, address: str, server_name: str | None = None
    ) -> None:
        self._world = world
        self._address = address
        self._grpc = secure_grpc()
        (self._active,) = world.peers
        self._credentials = channel_credentials(identity)
        self._options = [
            *OPTIONS,
            *channel_options(self._active, server_name),
            *proxy_option(address, os.environ),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2_000),
            ("grpc.use_local_subchannel_pool", 1),
        ]

    async def run(self) -> None:
        """Dial until cancelled; a connection that holds starts the pauses anew."""
        pause_s = PAUSE_S
        while True:
            held, details = await self._connect()
            pause_s = PAUSE_S if held else min(2 * pause_s, PAUSE_MAX_S)
            if details:
                fault = explain(details, self._active)
                self._world.watch.report.event(f"{self._address}: {fault}")
                if _is_final(details):
                    self._world.fail(PartyError(f"{self._active} at {self._address}: {fault}"))
                    return
            await asyncio.sleep(pause_s)

    async def _connect(self) -> tuple[bool, str]:
        """One connection from its beginning to its end: whether it held, and what broke it."""
        channel = self._grpc.aio.secure_channel(
            self._address, self._credentials, options=self._options
        )
        heard_before = self._world.watch.heard_of(self._active)
        details = ""
        try:
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
            await call.wait_for_connection()
            stream = ClientStream(call, self._grpc.aio.EOF)
            await self._world.serve(self._active, stream, None)
            if call.done():
                details = str(await call.details() or "")
        except self._grpc.aio.AioRpcError as error:
            details = str(error.details() or error.code())
        finally:
            await channel.close()
        return self._world.watch.heard_of(self._active) > heard_before, details


def _is_final(details: str) -> bool:
    """Whether trying again is of no use: certificates do not mend themselves."""
    finals = ("CERTIFICATE_VERIFY_FAILED", "Peer name", "Hostname Verification Check failed")
    return any(final in details for final in finals)
