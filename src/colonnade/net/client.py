"""A passive party's gRPC client: it connects to the active party, and reconnects."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from colonnade.errors import PartyError, WireError
from colonnade.net.grpc import (
    NOT_LISTENING,
    cancel_call,
    channel_credentials,
    channel_options,
    explain,
    secure_grpc,
)
from colonnade.net.proxy import proxy_option
from colonnade.net.server import METHOD, OPTIONS, SERVICE
from colonnade.net.session import Kind, Segment
from colonnade.net.world import NetworkWorld
from colonnade.tls.certificate import dns_name
from colonnade.tls.denial import is_denied_pem
from colonnade.tls.identity import Identity
from colonnade.tls.keyring import Keyring
from colonnade.tls.probe import shown_certificate

BACKOFF_S, BACKOFF_MAX_S = 0.1, 5.0
"""The pause between two attempts: doubled each time, reset once a connection has held."""
STARTUP_GRACE_NS = 10_000_000_000
"""Parties start in any order: for this long it is not reported that the active one has not."""
LAST_WORD_S = 1.0
"""How long the segment that says why this party gives up may take to be written."""


class ClientStream:
    """The client's end of a gRPC stream."""

    def __init__(self, call: Any, end: Any) -> None:
        self._call = call
        self._end = end

    async def write(self, data: bytes) -> None:
        await self._call.write(data)

    async def read(self) -> bytes | None:
        data: bytes = await self._call.read()
        return None if data is self._end else data


class Client:
    """Keeps a connection to the active party open."""

    def __init__(
        self,
        world: NetworkWorld,
        keyring: Keyring,
        address: str,
        server_name: str | None = None,
    ) -> None:
        self._world = world
        self._address = address
        self._grpc = secure_grpc()
        (self._active,) = world.peers
        self._said = ""
        """The last reported reason why there is no connection."""
        self._unheard_since_ns = world.now()
        self._keyring = keyring
        self._keyring.on_change = self._on_keys_changed
        self._name = server_name or dns_name(self._active)
        self._proxy = proxy_option(address, os.environ)
        self._options = [
            *OPTIONS,
            *channel_options(self._active, server_name),
            *self._proxy,
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2_000),
            ("grpc.use_local_subchannel_pool", 1),
        ]

    async def run(self) -> None:
        """Connect and reconnect until cancelled."""
        backoff_s = BACKOFF_S
        while self._world.fault is None:
            held, details = await self._connect()
            backoff_s = BACKOFF_S if held else min(2 * backoff_s, BACKOFF_MAX_S)
            if held:
                self._unheard_since_ns = self._world.now()
            self._explain("" if held else details)
            await asyncio.sleep(backoff_s)

    def _explain(self, details: str) -> None:
        """Report why there is no connection, once, and give up where retrying cannot help."""
        early = self._world.now() - self._unheard_since_ns < STARTUP_GRACE_NS
        if early and NOT_LISTENING in details:
            return
        fault = explain(details, self._active) if details else ""
        if fault and fault != self._said:
            self._world.detector.notice(f"{self._address}: {fault}")
        self._said = fault
        # With a deny-list gRPC trusts only the certificate that the probe saw. If the active party
        # has renewed it since, the failure is not final: the next attempt probes again.
        if _is_final(details) and not self._keyring.identity.denied:
            self._world.fail(PartyError(f"{self._active} at {self._address}: {fault}"))

    async def _connect(self) -> tuple[bool, str]:
        """Make one connection and serve it to its end; whether it held, and what broke it.

        It held if anything came over it: a server that accepts and says nothing does not reset
        the pauses.
        """
        try:
            identity = await self._expected_identity()
        except OSError as error:
            return False, str(error)
        channel = self._grpc.aio.secure_channel(
            self._address, channel_credentials(identity), options=self._options
        )
        heard_before = self._world.detector.heard_of(self._active)
        details, call = "", None
        try:
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
            await call.wait_for_connection()
            stream = ClientStream(call, self._grpc.aio.EOF)
            try:
                await self._world.serve(self._active, stream, None)
            except WireError as fault:
                await self._refuse(stream, fault)
            if call.done():
                details = str(await call.details() or "")
        except self._grpc.aio.AioRpcError as error:
            details = str(error.details() or error.code())
        finally:
            try:
                if call is not None:
                    await cancel_call(call)
            finally:
                await channel.close()
        return self._world.detector.heard_of(self._active) > heard_before, details

    async def _expected_identity(self) -> Identity:
        """This party's identity, with what gRPC is to trust.

        gRPC shows a client no certificate of the server. So with a deny-list, a connection of our
        own looks at it first, and gRPC is then told to trust that certificate only.
        """
        identity = self._keyring.identity
        if not identity.denied:
            return identity
        probe = partial(shown_certificate, self._address, identity, self._name, self._proxy)
        try:
            shown = await asyncio.to_thread(probe)
        except ssl.SSLCertVerificationError as error:
            self._give_up(explain(f"CERTIFICATE_VERIFY_FAILED {error}", self._active))
            raise
        if is_denied_pem(shown, identity.denied):
            self._give_up("its certificate is on the deny-list (tls.deny): it needs a new one")
            raise ConnectionError("its certificate is on the deny-list")
        return replace(identity, authority=shown)

    def _give_up(self, why: str) -> None:
        self._world.fail(PartyError(f"{self._active} at {self._address}: {why}"))

    def _on_keys_changed(self) -> None:
        """Reconnect, because the deny-list may have changed: it is checked on connecting."""
        if self._keyring.identity.denied:
            for connection in list(self._world.connections.values()):
                connection.closing.set()

    async def _refuse(self, stream: ClientStream, fault: WireError) -> None:
        """End the program, because the active party broke the protocol, and tell it why."""
        sentence = f"{self._active} sent what is no message of ours: {fault}"
        self._world.detector.refused(self._active, sentence)
        self._world.fail(PartyError(sentence))
        with suppress(TimeoutError, asyncio.InvalidStateError, self._grpc.aio.AioRpcError):
            last = Segment(Kind.FAIL, data=sentence.encode()[:2000]).encode()
            async with asyncio.timeout(LAST_WORD_S):
                await stream.write(last)


def _is_final(details: str) -> bool:
    """Whether retrying cannot help: the certificate or its name is wrong."""
    finals = ("CERTIFICATE_VERIFY_FAILED", "Peer name", "Hostname Verification Check failed")
    return any(final in details for final in finals)
