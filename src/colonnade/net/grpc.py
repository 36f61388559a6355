"""gRPC with mutual TLS between parties, and explanations of failed connections.

Both sides show a certificate and verify the other's, with TLS 1.3 only.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any

from colonnade.errors import RequestError
from colonnade.record.chain import printable
from colonnade.tls.certificate import dns_name, names_of
from colonnade.tls.identity import Identity
from colonnade.tls.keyring import Keyring

VERBOSITY_VARIABLE = "GRPC_VERBOSITY"
CONNECT_S = 5
"""How long an attempt of gRPC's to connect may take before it starts another: in polling mode it
sometimes misses that the other end closes right after the TLS handshake."""
CANCEL_S = 5
"""How long gRPC may take to end a cancelled call."""
LAST_CALLS_S = 1
"""How long the tasks of the last calls may take to end once their server has stopped."""
ENGINE_VARIABLE = "GRPC_EXPERIMENTS"
POLLING = "-event_engine_client,-event_engine_listener"
"""Lets gRPC poll sockets in the thread that waits for it. Its event engine, the default since
1.80, hands every message from thread to thread: a round trip on one host takes 1.6 times as long
(docs/network-performance.md)."""
KNOW_POLLING = range(80, 86)
"""The minor releases 1.x of gRPC that have both modes; a later one may complain of an option that
it does not know, and earlier ones poll anyway."""
SUITES_VARIABLE = "GRPC_SSL_CIPHER_SUITES"
SUITES = "ECDHE-PSK-CHACHA20-POLY1305"
"""The TLS 1.2 cipher suites that gRPC may use: one with a pre-shared key, which nobody has.

The list does not apply to TLS 1.3, so this leaves 1.3 only.
"""

_ANOTHER = (
    "who answers has a certificate, but not that of {0}: look at the address, and at the name of "
    "the active party in the job"
)
NOT_LISTENING = "Connection refused"
"""Part of gRPC's message when nothing listens at the address."""
_CLOSED = (
    "{0}, or a relay before it, closed the connection as it began: see whether it accepts this "
    "party's certificate"
)
REASONS = (
    ("Hostname Verification Check failed", _ANOTHER),
    ("Peer name", _ANOTHER),
    ("certificate has expired", "the certificate of {0} has expired: {0} must renew it"),
    ("not yet valid", "the certificate of {0} is not valid yet: look at the clocks of both hosts"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the certificate of {0} is not of an authority trusted here: {0} must use one that is, or "
        "its authority must be added here",
    ),
    (
        "HTTP proxy returned response code 407",
        "the proxy wants a user and a password: set HTTPS_PROXY=http://user:password@host:port",
    ),
    (
        "HTTP proxy returned",
        "the proxy refused to connect to {0}: ask who runs it to allow the address",
    ),
    ("Socket closed", _CLOSED),
    ("Connection reset", _CLOSED),
    (NOT_LISTENING, "nobody listens at the address of {0}: see whether {0} has started"),
)
"""Why a connection failed: a part of gRPC's message, and what it means. The first match counts."""


def secure_grpc() -> Any:
    """Import gRPC so that it uses TLS 1.3 only and prints nothing to standard error; return it.

    gRPC has no options for these, but reads environment variables when it is first imported.
    """
    if "grpc" in sys.modules and os.environ.get(SUITES_VARIABLE) != SUITES:
        raise RequestError(
            "gRPC was imported before and may speak TLS 1.2: import it later, or set "
            f"{SUITES_VARIABLE}={SUITES} in the environment"
        )
    os.environ[SUITES_VARIABLE] = SUITES
    # Otherwise gRPC prints a line to the party's terminal for each handshake that fails.
    os.environ.setdefault(VERBOSITY_VARIABLE, "NONE")
    major, minor = map(int, version("grpcio").split(".")[:2])
    if major == 1 and minor in KNOW_POLLING:
        os.environ.setdefault(ENGINE_VARIABLE, POLLING)
    if "grpc" not in sys.modules:
        # The interpreter waits for ever for gRPC's threads while anything, such as the traceback of
        # an error, still refers to a connection.
        atexit.register(gc.collect)
        # gRPC logs a traceback when a connection breaks as its stream ends; we report it already.
        logging.getLogger("grpc._cython.cygrpc").addFilter(_not_of_a_broken_connection)
    import grpc

    return grpc


def _not_of_a_broken_connection(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("ExecuteBatchError raised in core")


def server_credentials(keyring: Keyring, on_handshake: Callable[[], None] = lambda: None) -> Any:
    """The active party's credentials; they require a certificate from each client.

    `on_handshake` is called at the beginning of each TLS handshake, in a thread of gRPC's.
    """
    grpc = secure_grpc()
    shown = [keyring.identity]

    def configuration(identity: Identity) -> Any:
        return grpc.ssl_server_certificate_configuration(
            [(identity.key, identity.certificate)], root_certificates=identity.authority
        )

    def other_certificate() -> Any:
        """Called by gRPC before each handshake: a new configuration, or None for no change."""
        on_handshake()
        if keyring.identity is shown[0]:
            return None
        shown[0] = keyring.identity
        return configuration(shown[0])

    return grpc.dynamic_ssl_server_credentials(
        configuration(shown[0]), other_certificate, require_client_authentication=True
    )


def channel_credentials(identity: Identity) -> Any:
    """A passive party's credentials."""
    return secure_grpc().ssl_channel_credentials(
        root_certificates=identity.authority,
        private_key=identity.key,
        certificate_chain=identity.certificate,
    )


async def cancel_call(call: Any) -> None:
    """Cancel a call, and wait until gRPC has nothing more to report about it.

    A later report would find the event loop closed, or replaced by another.
    """
    call.cancel()
    ended = asyncio.ensure_future(call.code())
    try:
        await asyncio.wait([ended], timeout=CANCEL_S)
    except asyncio.CancelledError:
        await asyncio.wait([ended], timeout=CANCEL_S)
        raise
    finally:
        ended.cancel()


async def stop_server(server: Any, grace_s: float | None) -> None:
    """Stop a server, and wait until nothing of gRPC's is left in the event loop.

    Whoever cancels this waits all the same, for as long as calls may still take: when its server is
    cancelled while it stops, gRPC writes into memory that it has freed.
    """
    stopping = asyncio.ensure_future(_stop_server(server, grace_s))
    cancelled = False
    while not stopping.done():
        try:
            await asyncio.wait([stopping])
        except asyncio.CancelledError:
            cancelled = True
    stopping.result()
    if cancelled:
        raise asyncio.CancelledError


async def _stop_server(server: Any, grace_s: float | None) -> None:
    """Stop a server, and then let the tasks of its last calls end.

    gRPC says that a server has stopped some passes of the loop before they do. A loop that ends in
    between cancels them, and then gRPC prints a traceback.
    """
    await server.stop(grace_s)
    tasks = asyncio.all_tasks()
    calls = [t for t in tasks if getattr(t.get_coro(), "__qualname__", None) in _OF_A_CALL]
    if calls:
        await asyncio.wait(calls, timeout=LAST_CALLS_S)


_OF_A_CALL = {"_schedule_rpc_coro", "_handle_exceptions"}
"""What gRPC calls the coroutines of a call that it serves."""


def channel_options(active: str, server_name: str | None = None) -> list[tuple[str, str | int]]:
    """Channel options: the name in the active party's certificate, and the time for an attempt.

    The name does not depend on the address, so IP addresses, forwarded ports and relays work.
    `server_name` is a DNS name in the active party's certificate, where that comes from a
    company's own CA.

    >>> channel_options("bank")[0]
    ('grpc.ssl_target_name_override', 'bank.colonnade.internal')
    """
    return [
        ("grpc.ssl_target_name_override", server_name or dns_name(active)),
        ("grpc.min_reconnect_backoff_ms", CONNECT_S * 1000),
    ]


def peer_certificate(auth_context: Mapping[str, Iterable[bytes]]) -> bytes | None:
    """The client's certificate, which gRPC has verified, for `party_of`.

    >>> peer_certificate({"x509_pem_cert": [b"-----BEGIN"]})
    b'-----BEGIN'
    """
    return next(iter(auth_context.get("x509_pem_cert", ())), None)


def holder(pem: bytes | None) -> str:
    """Whom a certificate names, fit to be printed: control characters in it are replaced."""
    named = [] if pem is None else names_of(pem)
    return printable((", ".join(dict.fromkeys(named)) or "nobody")[:100])


def explain(details: str, active: str) -> str:
    """Say in a sentence why connecting to the active party failed, from gRPC's message.

    >>> explain("failed to connect to all addresses; ... Connection refused", "bank")
    'nobody listens at the address of bank: see whether bank has started'
    """
    known = (meaning.format(active) for part, meaning in REASONS if part in details)
    return next(known, f"{active} cannot be reached: {details}")
