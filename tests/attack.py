"""The fuzzer's own process: it reads commands, one a line, and sends what was valid once.

It stands for a party that has gone wrong, for strangers at the server, and for an active party that
speaks nonsense. `tests/fuzz.py` starts it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from colonnade.net import grpc as tls
from colonnade.net.server import METHOD, SERVICE, STREAMS_PER_CONNECTION
from colonnade.net.session import PROTOCOL, Kind, Segment
from colonnade.tls.keyring import Keyring
from colonnade.wire.messages import Hello
from tests.certificates import unchecked
from tests.mutations import Mutator
from tests.scene import wire

WAIT_S = 10
BURST = 12
"""The most spoilt segments on one stream; mostly the first few end it."""
ANSWER_S = 0.3
"""How long a stream may wait for its first answer."""
STREAMS = STREAMS_PER_CONNECTION
OWN = 7
"""The incarnation that the fuzzed party mostly has: it comes back, as after a lost connection."""
FATAL = (asyncio.InvalidStateError, TimeoutError, ConnectionError, OSError)


class Attacker:
    """Everything that can be sent to a server."""

    def __init__(self, folder: Path, seed: int) -> None:
        hello = msgspec.json.decode((folder / "hello.json").read_bytes(), type=Hello)
        self.known = {name: unchecked(folder / name) for name in ("p1", "p2", "x")}
        self.folder = folder / "p2"
        self.mutator = Mutator(seed, hello)
        self.random = self.mutator.random
        self.sent = 0
        self.refused = 0
        self._goal = 0
        self._grpc = tls.secure_grpc()
        self._quiet = (self._grpc.aio.AioRpcError, self._grpc.aio.UsageError, *FATAL)

    async def party(self, address: str, count: int) -> None:
        """From the certificate of a party of the job."""
        goal = self.sent + count
        while self.sent < goal:
            async with wire(address, self.known["p2"], "p1") as open_stream:
                while self.sent < goal and await self._stream(
                    open_stream(), deep=self.random.random() < 0.1
                ):
                    pass

    async def stranger(self, address: str, count: int) -> None:
        """From the certificate of a party that the job does not know."""
        goal = self.sent + count
        while self.sent < goal:
            async with wire(address, self.known["x"], "p1") as open_stream:
                while self.sent < goal and all(
                    await asyncio.gather(*(self._stream(open_stream()) for _ in range(STREAMS)))
                ):
                    pass

    async def _stream(self, call: Any, deep: bool = False) -> bool:
        """One stream: a JOIN, perhaps a whole greeting, and then what is wrong; whether anything
        was heard. On a connection with too many streams that gRPC counts as open, nothing is."""
        new = deep or self.random.random() < 0.1
        incarnation = self.random.getrandbits(48) if new else OWN
        heard = False
        with suppress(*self._quiet):
            async with asyncio.timeout(WAIT_S):
                async with asyncio.timeout(ANSWER_S):
                    generation = await self._join(call, incarnation)
                heard = True
                number = self.random.choice((0, 0, 1, 5))
                if deep:
                    number = await self._greet(call, generation)
                for _ in range(self.random.randrange(1, BURST)):
                    good = self.mutator.segment(generation, number, incarnation)
                    await self._write(call, self.mutator.spoil(good))
                    number += good.kind == Kind.DATA
                await call.done_writing()
                await self._hear(call)
        call.cancel()
        return heard

    async def _join(self, call: Any, incarnation: int) -> int:
        """Connect to the server; the generation that is answered, if any."""
        join = Segment(Kind.JOIN, 0, incarnation, flags=PROTOCOL)
        if self.random.random() < 0.15:
            await self._write(call, self.mutator.spoil(join))
            return 1
        await self._write(call, join.encode())
        raw = await call.read()
        if raw is self._grpc.aio.EOF:
            raise ConnectionError
        answer = Segment.decode(raw)
        self.refused += answer.kind == Kind.REFUSE
        return answer.generation

    async def _greet(self, call: Any, generation: int) -> int:
        """Say Hello as one should, and send a few embeddings as one should."""
        frames = self.mutator.opening()[: self.random.randrange(1, 4)]
        for number, data in enumerate(frames):
            await self._write(
                call, Segment(Kind.DATA, generation, number, 0, 0, len(data), 0, data).encode()
            )
        return len(frames)

    async def _write(self, call: Any, data: bytes) -> None:
        self.sent += 1
        await call.write(data)

    async def _hear(self, call: Any) -> None:
        while (raw := await call.read()) is not self._grpc.aio.EOF:
            self.refused += Segment.decode(raw).kind == Kind.REFUSE

    async def socket(self, address: str, count: int) -> None:
        """Below gRPC: bytes, handshakes, and HTTP/2 that is none."""
        host, _, port = address.rpartition(":")
        for _ in range(count):
            self.sent += 1
            with suppress(*FATAL, ssl.SSLError):
                async with asyncio.timeout(WAIT_S):
                    await self._connect_raw(host, int(port))

    async def _connect_raw(self, host: str, port: int) -> None:
        draw = self.random.random()
        context = None if draw < 0.4 else self._context(with_certificate=draw > 0.6)
        name = None if context is None else "p1.colonnade.internal"
        reader, writer = await asyncio.open_connection(
            host, port, ssl=context, server_hostname=name
        )
        try:
            if context is None:
                writer.write(self.mutator.bytes(self._client_hello()))
            else:
                writer.write(self.mutator.bytes(PREFACE) if draw < 0.8 else PREFACE)
                writer.write(self.random.randbytes(self.random.randrange(400)))
            await writer.drain()
            writer.write_eof() if context is None else None
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), 0.05)
        finally:
            writer.close()

    def _context(self, with_certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        context.set_alpn_protocols(["h2"])
        if with_certificate:
            context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        return context

    def _client_hello(self) -> bytes:
        inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        shake = self._context(False).wrap_bio(inward, outward, server_hostname="p1")
        with suppress(ssl.SSLWantReadError):
            shake.do_handshake()
        return outward.read()

    async def server(self, address: str, count: int) -> int:
        """Be an active party that speaks nonsense, until so much was said; returns the port."""
        self._goal = self.sent + count
        server = self._grpc.aio.server()

        async def answer(requests: Any, context: Any) -> None:
            with suppress(*self._quiet):
                async with asyncio.timeout(WAIT_S):
                    await self._answer(context)

        handler = self._grpc.stream_stream_rpc_method_handler(answer)
        server.add_generic_rpc_handlers(
            (self._grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )
        port: int = server.add_secure_port(
            "127.0.0.1:0", tls.server_credentials(Keyring(self.known["p1"]))
        )
        await server.start()
        self._server = server  # kept: it serves as long as somebody holds it
        return port

    async def unsaid(self, address: str, count: int) -> int:
        """How much the server has yet to say."""
        return max(0, self._goal - self.sent)

    async def _answer(self, context: Any) -> None:
        join = Segment.decode(await context.read())
        generation = join.generation + 1
        if self.random.random() < 0.9:
            opened = Segment(Kind.OPEN, generation, join.number)
            await context.write(opened.encode())
        for number in range(self.random.randrange(1, BURST)):
            if self.sent >= self._goal:
                return
            good = self.mutator.segment(generation, number, join.number)
            self.sent += 1
            await context.write(self.mutator.spoil(good))
        await asyncio.sleep(0.02)


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(6) + b"\x04" + bytes(6)


async def main(folder: str, seed: str) -> None:
    """Obey until the input ends."""
    attacker = Attacker(Path(folder), int(seed))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        before = attacker.sent
        result = await getattr(attacker, command["how"])(command["address"], command["count"])
        answer = {"sent": attacker.sent - before, "refused": attacker.refused, "result": result}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
