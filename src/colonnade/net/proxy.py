"""The proxy of a connection, from `HTTPS_PROXY` and `NO_PROXY`, as gRPC options.

gRPC would also read other variables (`http_proxy`, `grpc_proxy`), so it is always told.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from colonnade.errors import RequestError

THIS_HOST = ("localhost", "127.0.0.0/8", "::1/128")


def proxy_option(target: str, environ: Mapping[str, str]) -> list[tuple[str, str | int]]:
    """Options of a channel to `host:port`: the HTTP proxy to use, or none.

    Lower-case variables take precedence over upper-case ones. `NO_PROXY` lists hosts, domains, IP
    addresses and networks, separated by commas; `*` is all. This host never needs a proxy.

    >>> proxy_option("bank.example:7443", {"HTTPS_PROXY": "http://proxy.example:3128"})
    [('grpc.http_proxy', 'http://proxy.example:3128')]
    >>> proxy_option("127.0.0.1:7443", {"HTTPS_PROXY": "http://proxy.example:3128"})
    [('grpc.enable_http_proxy', 0)]
    """
    host, port = _host_and_port(target)
    proxy = _variable("https_proxy", environ)
    listed = re.split(r"[,\s]+", _variable("no_proxy", environ).lower())
    exempt = any(_covers(entry, host, port) for entry in (*listed, *THIS_HOST) if entry)
    if not proxy or exempt:
        return [("grpc.enable_http_proxy", 0)]
    return [("grpc.http_proxy", _read_proxy(proxy))]


def _variable(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name, environ.get(name.upper(), "")).strip()


def _host_and_port(target: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{target}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or port is None:
        raise RequestError(f"'{target}' is no address to dial: write bank.example:7443")
    return host.rstrip("."), port


def _covers(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of `NO_PROXY`, with or without a port, matches a host."""
    with_port = re.fullmatch(r"(\[.*\]|[^:]*):(\d+)", entry)
    if with_port:
        if int(with_port[2]) != port:
            return False
        entry = with_port[1]
    if entry == "*":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        domain = entry.removeprefix("*").removeprefix(".")
        return host == domain or host.endswith(f".{domain}")
    try:
        return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False


def _read_proxy(text: str) -> str:
    """The proxy's URL in gRPC's form; an error does not quote it, since it may have a password."""
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme != "http":
        raise RequestError(
            "the proxy in HTTPS_PROXY cannot be used: write http://proxy.example:3128, or "
            "http://user:password@proxy.example:3128 (only the way to the proxy is http)"
        )
    return f"http://{parts.netloc if port else parts.netloc.rstrip(':') + ':80'}"
