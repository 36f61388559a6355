"""TLS between real gRPC ends: who is let in, who is not, and through what."""

import asyncio
import base64
import os
import socket
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from colonnade.net import grpc as tls
from colonnade.net.proxy import proxy_option
from colonnade.tls.authority import create_authority, issue
from colonnade.tls.certificate import party_of
from colonnade.tls.identity import Identity
from colonnade.tls.keyring import Keyring
from tests import loop
from tests.certificates import certificate, load, signer, store, unchecked

grpc = tls.secure_grpc()

METHOD = "/colonnade.Wire/Stream"
ODD = "Telco_" + "x" * 58
PATIENCE_S = 250


@pytest.fixture(scope="module")
def alliance(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "alliance"
    past = datetime.now(UTC) - timedelta(days=50)
    create_authority(folder, now=past)
    issue(folder, ["bank", "telco", "Bank", ODD])
    issue(folder, ["late"], days=3, now=past)
    create_authority(folder / "elsewhere")
    issue(folder / "elsewhere", ["bank", "telco"])
    return folder


class Active:
    """A server that sends back what it gets, and remembers who called."""

    def __init__(self, known):
        self.known = known
        self.callers = []
        self.versions = set()

    async def answer(self, messages, context):
        seen = context.auth_context()
        self.callers.append(party_of(tls.peer_certificate(seen), self.known))
        self.versions |= set(seen["ssl_tls_version"])
        async for message in messages:
            yield message


@asynccontextmanager
async def listening(identity, known=None):
    active = Active(known or {"telco": (), ODD: ()})
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(active.answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("colonnade.Wire", {"Stream": handler}),)
    )
    active.port = server.add_secure_port("127.0.0.1:0", tls.server_credentials(Keyring(identity)))
    await server.start()
    try:
        yield active
    finally:
        await tls.stop_server(server, 0)


async def call(target, credentials, options):
    """What a passive party gets back for one message, or why it got nothing."""
    async with grpc.aio.secure_channel(target, credentials, options=options) as channel:
        stream = channel.stream_stream(METHOD)(iter([b"message" * 5000]), timeout=PATIENCE_S)
        try:
            return [len(message) async for message in stream]
        except grpc.aio.AioRpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error.details()
            return error.details()


async def dial(port, identity, active="bank", server_name=None):
    target = f"127.0.0.1:{port}"
    options = [*tls.channel_options(active, server_name), *proxy_option(target, os.environ)]
    return await call(target, tls.channel_credentials(identity), options)


@pytest.mark.parametrize("party", ["telco", ODD])
def test_the_active_party_learns_who_calls(alliance, party):
    async def scene():
        async with listening(load(alliance / "bank", listens=True)[0]) as active:
            assert await dial(active.port, load(alliance / party, party)[0]) == [35000]
            assert active.callers == [party]
            assert active.versions == {b"TLSv1.3"}

    loop.run(scene())


def test_a_party_that_the_job_does_not_know_is_nobody(alliance):
    async def scene():
        async with listening(load(alliance / "bank", listens=True)[0]) as active:
            await dial(active.port, load(alliance / "Bank", "Bank")[0])
            assert active.callers == [None]

    loop.run(scene())


@pytest.mark.parametrize("who", ["none", "elsewhere", "late"])
def test_who_is_not_let_in(alliance, who):
    trusted = (alliance / "ca.pem").read_bytes()
    if who == "none":
        credentials = grpc.ssl_channel_credentials(trusted)
    else:
        folder = alliance / "elsewhere" / "telco" if who == "elsewhere" else alliance / "late"
        mine = unchecked(folder)
        theirs = Identity("telco", mine.certificate, mine.key, trusted)
        credentials = tls.channel_credentials(theirs)

    async def scene():
        async with listening(unchecked(alliance / "bank"), {"telco": (), "late": ()}) as active:
            target = f"127.0.0.1:{active.port}"
            options = [*tls.channel_options("bank"), *proxy_option(target, os.environ)]
            details = await call(target, credentials, options)
            assert "closed the connection as it began" in tls.explain(details, "bank")
            # The server still admits those who belong.
            assert await dial(active.port, unchecked(alliance / "telco")) == [35000]
            assert active.callers == ["telco"]

    loop.run(scene())


@pytest.mark.parametrize(
    ("server", "active", "said"),
    [
        ("telco", "bank", "a certificate, but not that of bank"),
        ("bank", "Bank", "a certificate, but not that of Bank"),
        ("elsewhere/bank", "bank", "not of an authority trusted here"),
        ("late", "late", "the certificate of late has expired"),
    ],
)
def test_a_passive_party_knows_whom_it_talks_to(alliance, server, active, said):
    async def scene():
        async with listening(unchecked(alliance / server)) as there:
            details = await dial(there.port, unchecked(alliance / "telco"), active)
            assert said in tls.explain(details, active)
            assert there.callers == []

    loop.run(scene())


def test_certificates_of_a_companys_own_authority(tmp_path):
    root = signer("Root")
    middle = signer("Middle", root)

    def made(party, host):
        cert, key = certificate(middle, f"{party} plc", dns=(host,))
        folder = store(tmp_path / party, cert + middle.pem, key, root.pem)
        return load(folder, party, (host,), listens=party == "bank")[0]

    async def scene():
        bank, telco = made("bank", "vfl.bank.example"), made("telco", "vfl.telco.example")
        known = {"telco": ("vfl.telco.example",)}
        async with listening(bank, known) as active:
            assert await dial(active.port, telco, server_name="vfl.bank.example") == [35000]
            assert active.callers == ["telco"]
            details = await dial(active.port, telco)
            assert "not that of bank" in tls.explain(details, "bank")

    loop.run(scene())


def python_end(folder, purpose, version):
    """The other side of a connection, made with Python's own TLS."""
    context = ssl.SSLContext(purpose)
    context.check_hostname = False
    context.load_verify_locations(folder / "ca.pem")
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    return context


def shake_hands(port, context):
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain) as secure,
    ):
        return secure.version()


def test_a_server_of_ours_refuses_tls_1_2(alliance):
    async def scene():
        async with listening(unchecked(alliance / "bank")) as active:
            client = python_end(alliance / "telco", ssl.PROTOCOL_TLS_CLIENT, ssl.TLSVersion.TLSv1_2)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(shake_hands, active.port, client)
            client.maximum_version = ssl.TLSVersion.TLSv1_3
            assert await asyncio.to_thread(shake_hands, active.port, client) == "TLSv1.3"

    loop.run(scene())


def test_a_client_of_ours_refuses_tls_1_2(alliance):
    def handshake(version):
        """Accept one connection of a gRPC client; the version, or why there is none."""
        context = python_end(alliance / "bank", ssl.PROTOCOL_TLS_SERVER, version)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(PATIENCE_S)
            asyncio.run_coroutine_threadsafe(ports.put(listener.getsockname()[1]), home)
            plain, _ = listener.accept()
            with plain:
                plain.settimeout(PATIENCE_S)
                try:
                    with context.wrap_socket(plain, server_side=True) as secure:
                        return secure.version()
                except ssl.SSLError as error:
                    return error.reason

    async def scene(version):
        nonlocal ports, home
        ports, home = asyncio.Queue(), asyncio.get_running_loop()
        shaken = asyncio.create_task(asyncio.to_thread(handshake, version))
        await dial(await ports.get(), unchecked(alliance / "telco"))
        return await shaken

    ports, home = None, None
    assert loop.run(scene(ssl.TLSVersion.TLSv1_3)) == "TLSv1.3"
    assert loop.run(scene(ssl.TLSVersion.TLSv1_2)) in (
        "UNSUPPORTED_PROTOCOL",
        "NO_SHARED_CIPHER",
    )


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def between(port, greet=None):
    """A relay of bytes to a port; `greet` may speak with the client first, and refuse it."""
    passed = set()

    async def join(reader, writer):
        passed.add(asyncio.current_task())
        if greet is not None and not await greet(reader, writer):
            writer.close()
            return
        onward = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.wait_for(asyncio.gather(*passed), PATIENCE_S)
    assert passed, "nothing went through"


def test_through_a_relay_that_passes_tls_on(alliance):
    async def scene():
        async with listening(unchecked(alliance / "bank")) as active, between(active.port) as port:
            assert await dial(port, unchecked(alliance / "telco")) == [35000]
            assert active.callers == ["telco"]

    loop.run(scene())


def connect_proxy(asked, password=None):
    """The opening of a CONNECT proxy, which notes where clients want to go."""

    async def greet(reader, writer):
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(request.splitlines()[0])
        wanted = f"Basic {base64.b64encode(password.encode()).decode()}" if password else ""
        if wanted not in request:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return False
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        return True

    return greet


@pytest.mark.parametrize(
    ("password", "given", "works"),
    [
        (None, "", True),
        ("user:p@ss word", "user:p%40ss%20word@", True),
        ("user:p@ss word", "user:wrong@", False),
        ("user:p@ss word", "", False),
    ],
)
def test_through_a_proxy(alliance, monkeypatch, password, given, works):
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def scene():
        asked = []
        async with (
            listening(unchecked(alliance / "bank")) as active,
            between(active.port, connect_proxy(asked, password)) as port,
        ):
            # Only the proxy can find this host: the name is never resolved here.
            target = f"bank.invalid:{active.port}"
            proxy = proxy_option(target, {"HTTPS_PROXY": f"http://{given}127.0.0.1:{port}"})
            options = [*tls.channel_options("bank"), *proxy]
            credentials = tls.channel_credentials(unchecked(alliance / "telco"))
            answer = await call(target, credentials, options)
            assert asked[0] == f"CONNECT {target} HTTP/1.1"
            if works:
                assert (answer, active.callers) == ([35000], ["telco"])
            else:
                assert "the proxy wants a user and a password" in tls.explain(answer, "bank")

    loop.run(scene())


def test_the_environment_alone_sends_nobody_to_a_proxy(alliance, monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def scene():
        async with listening(unchecked(alliance / "bank")) as active:
            target = f"127.0.0.1:{active.port}"
            options = [*tls.channel_options("bank"), *proxy_option(target, {})]
            credentials = tls.channel_credentials(unchecked(alliance / "telco"))
            assert await call(target, credentials, options) == [35000]

    loop.run(scene())


def test_nobody_listens(alliance):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    details = loop.run(dial(port, unchecked(alliance / "telco")))
    assert "nobody listens" in tls.explain(details, "bank")


@asynccontextmanager
async def called(end):
    """A server and a call to it, which lasts until it is cancelled and then takes as long as `end`
    does."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def answer(requests, context):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await end()
            ended.set()

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("colonnade.Wire", {"Stream": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(METHOD)()
        await call.write(b"here")
        await begun.wait()
        yield server, ended
        await tls.cancel_call(call)


@pytest.mark.parametrize("passes", range(5))
def test_when_a_server_has_stopped_nothing_of_grpc_is_left_in_the_loop(passes):
    """However many passes a call takes to end: a loop that closes would print a traceback."""

    async def end():
        for _ in range(passes):
            await asyncio.sleep(0)

    async def whole():
        before = asyncio.all_tasks()
        async with called(end) as (server, _):
            await tls.stop_server(server, 0.01)
            left = {task.get_coro().__qualname__ for task in asyncio.all_tasks() - before}
            assert not left & {"_schedule_rpc_coro", "_handle_exceptions"}

    loop.run(whole())


def test_a_server_that_is_cancelled_while_it_stops_stops_all_the_same():
    """Else gRPC writes into memory that it has freed, and the process dies sooner or later."""

    async def whole():
        async with called(partial(asyncio.sleep, 0.05)) as (server, ended):
            stopping = asyncio.ensure_future(tls.stop_server(server, 0.05))
            for _ in range(3):
                await asyncio.sleep(0.01)
                stopping.cancel()
            await asyncio.wait([stopping])
            assert ended.is_set() and stopping.cancelled()

    loop.run(whole())
