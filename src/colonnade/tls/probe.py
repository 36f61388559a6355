"""Fetches the active party's certificate before connecting, because gRPC does not show it.

Only a passive party with a deny-list needs this. The certificate is verified as gRPC would, and is
then the only one that gRPC is told to trust.
"""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from colonnade.tls.identity import Identity

PROBE_S = 10.0
_ANSWER_BYTES_MAX = 8192


def shown_certificate(
    target: str, identity: Identity, name: str, proxy: Sequence[tuple[str, str | int]] = ()
) -> bytes:
    """The certificate, as PEM, that `host:port` shows for a name; may block for seconds.

    `proxy` is what `proxy_option` returns for the target.
    """
    context = ssl.create_default_context(cadata=identity.authority.decode())
    # As gRPC verifies: a CA's certificate need not have every extension.
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    plain = _connected(target, dict(proxy).get("grpc.http_proxy"))
    with plain, context.wrap_socket(plain, server_hostname=name) as secure:
        shown = secure.getpeercert(binary_form=True)
    assert shown is not None, "a client always verifies"
    return ssl.DER_cert_to_PEM_cert(shown).encode()


def _connected(target: str, proxy: str | int | None) -> socket.socket:
    if proxy is None:
        return socket.create_connection(_place(target), PROBE_S)
    parts = urlsplit(str(proxy))
    made = socket.create_connection(_place(parts.netloc.rpartition("@")[2]), PROBE_S)
    try:
        words = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if parts.username is not None:
            secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            words.append(f"Proxy-Authorization: Basic {base64.b64encode(secret).decode()}")
        made.sendall("\r\n".join([*words, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer and len(answer) < _ANSWER_BYTES_MAX:
            # One byte at a time: what comes after the answer belongs to TLS.
            if not (byte := made.recv(1)):
                break
            answer += byte
        code = answer[9:12].decode(errors="replace")  # after "HTTP/1.1 "
        if code != "200":
            raise ConnectionError(f"HTTP proxy returned response code {code}")
        return made
    except BaseException:
        made.close()
        raise


def _place(target: str) -> tuple[str, int]:
    parts = urlsplit(f"//{target}")
    assert parts.hostname is not None and parts.port is not None
    return parts.hostname, parts.port
