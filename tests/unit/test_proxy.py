"""Which proxy is used for which address."""

import pytest

from colonnade.errors import RequestError
from colonnade.net.proxy import proxy_option

PROXY = "http://proxy.example:3128"
NONE = [("grpc.enable_http_proxy", 0)]


def through(url):
    return [("grpc.http_proxy", url)]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (PROXY, PROXY),
        ("proxy.example:3128", PROXY),
        (f"{PROXY}/", PROXY),
        ("http://proxy.example", "http://proxy.example:80"),
        ("http://user:p%40ss@proxy.example:3128", "http://user:p%40ss@proxy.example:3128"),
        ("user:word@proxy.example:3128", "http://user:word@proxy.example:3128"),
        ("http://[fd00::1]:3128", "http://[fd00::1]:3128"),
        ("http://[fd00::1]", "http://[fd00::1]:80"),
    ],
)
def test_ways_to_write_a_proxy(given, used):
    assert proxy_option("bank.example:7443", {"HTTPS_PROXY": given}) == through(used)


def test_which_variables_count():
    target = "bank.example:7443"
    assert proxy_option(target, {}) == NONE
    assert proxy_option(target, {"HTTPS_PROXY": " "}) == NONE
    others = {"http_proxy": PROXY, "HTTP_PROXY": PROXY, "grpc_proxy": PROXY, "ALL_PROXY": PROXY}
    assert proxy_option(target, others) == NONE
    both = {"https_proxy": PROXY, "HTTPS_PROXY": "http://other.example:1"}
    assert proxy_option(target, both) == through(PROXY)
    assert proxy_option(target, {"https_proxy": "", "HTTPS_PROXY": PROXY}) == NONE
    assert proxy_option(target, {"HTTPS_PROXY": PROXY, "NO_PROXY": "bank.example"}) == NONE
    lower = {"HTTPS_PROXY": PROXY, "NO_PROXY": "bank.example", "no_proxy": "other.example"}
    assert proxy_option(target, lower) == through(PROXY)


@pytest.mark.parametrize(
    ("target", "listed", "exempt"),
    [
        ("bank.example:7443", "bank.example", True),
        ("Bank.Example:7443", "other.example, BANK.example", True),
        ("bank.example.:7443", "bank.example", True),
        ("a.bank.example:7443", "bank.example", True),
        ("a.bank.example:7443", ".bank.example", True),
        ("a.bank.example:7443", "*.bank.example", True),
        ("mybank.example:7443", "bank.example", False),
        ("bank.example.org:7443", "bank.example", False),
        ("bank.example:7443", "bank.example:7443", True),
        ("bank.example:7443", "bank.example:443", False),
        ("bank.example:7443", "a.example b.example", False),
        ("bank.example:7443", "*", True),
        ("bank.example:7443", "", False),
        ("bank.example:7443", ",,", False),
        ("10.1.2.3:7443", "10.0.0.0/8", True),
        ("10.1.2.3:7443", "10.1.2.3", True),
        ("10.1.2.3:7443", "10.1.2.3:7443", True),
        ("11.1.2.3:7443", "10.0.0.0/8", False),
        ("[fd00::5]:7443", "fd00::/16", True),
        ("[fd00::5]:7443", "[fd00::5]:7443", True),
        ("[fd00::5]:7443", "10.0.0.0/8", False),
        ("10.1.2.3:7443", "2.3", False),
        ("localhost:7443", "", True),
        ("127.0.0.1:7443", "other.example", True),
        ("[::1]:7443", "", True),
    ],
)
def test_what_goes_past_the_proxy(target, listed, exempt):
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": listed}
    assert proxy_option(target, environ) == (NONE if exempt else through(PROXY))


@pytest.mark.parametrize(
    "proxy",
    ["https://u:hush@proxy.example:1", "socks5://u:hush@p:1", "http://u:hush@", "http://p:x"],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(proxy):
    with pytest.raises(RequestError, match="HTTPS_PROXY cannot be used") as caught:
        proxy_option("bank.example:7443", {"HTTPS_PROXY": proxy})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("target", ["", ":7443", "bank.example", "bank:x", "[::1", "bank:99999"])
def test_what_is_no_address(target):
    with pytest.raises(RequestError, match="no address to dial"):
        proxy_option(target, {})
