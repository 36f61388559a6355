"""The WAN test bench itself: what its lines do to real packets, and that it leaves nothing behind.

Needs root, `ip` and /dev/net/tun; skipped with the reason otherwise.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.wan import spaces
from tests.wan.net import ROOT, Side, congestion_control, raw_socket_throughput
from tests.wan.spaces import alive

CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    print("connected", flush=True)
    try:
        connection.recv(1)
    except OSError as error:
        print(type(error).__name__, flush=True)
"""
HANG = """
import time
from tests.wan.net import Side, wan
with wan({"bank": Side(), "telco": Side()}) as net:
    sleeper = net.host("telco").popen(["sleep", "600"])
    print(net.relay_pid, sleeper.pid, flush=True)
    time.sleep(600)
"""


def echo(net):
    """A UDP echo on the hub; returns its port."""
    command = [sys.executable, "-m", "tests.wan.udp", "echo", net.hub.address]
    server = net.hub.popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return server.stdout.readline().strip()


def ping(net, host, port, count, gap_s=0.02, patience_s=1.0):
    """Round trip times in seconds of the datagrams that came back."""
    words = ["ping", net.hub.address, port, str(count), str(gap_s), str(patience_s)]
    return json.loads(net.host(host).run([sys.executable, "-m", "tests.wan.udp", *words]))


def until(condition, patience_s=20):
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.05)


def left_over(relay_pid):
    return [name for pid, name in spaces.existing() if pid == relay_pid]


def test_a_round_trip_takes_twice_the_latency(wan):
    sides = {"bank": Side(), "telco": Side(latency="20ms"), "insurer": Side(latency="5ms")}
    with wan(sides) as net:
        port = echo(net)
        for host, round_trip_s in (("telco", 0.040), ("insurer", 0.010)):
            times = []
            # A busy machine adds to most of them; the least shows what the line does.
            while not times or (min(times) > round_trip_s + 0.010 and len(times) < 500):
                times += ping(net, host, port, 25)
            assert len(times) % 25 == 0
            assert round_trip_s <= min(times) < round_trip_s + 0.010
        net.set("insurer", latency="60ms")
        assert min(ping(net, "insurer", port, 5)) >= 0.120


@pytest.mark.parametrize("to_hub", [True, False])
def test_tcp_fills_the_line_and_no_more(wan, to_hub):
    rate = 100e6 / 8
    with wan({"bank": Side(), "telco": Side(latency="20ms", rate="100mbit")}) as net:
        assert congestion_control(net)
        # The machine may be busy with other things: the line must be filled once, and never over.
        for _ in range(3):
            got = raw_socket_throughput(net, "telco", 20_000_000, to_hub=to_hub, skip=4_000_000)
            assert got <= rate
            if got >= 0.80 * rate:
                break
        assert got >= 0.80 * rate


def test_a_small_queue_drops_and_tcp_still_arrives(wan):
    side = Side(latency="5ms", rate="20mbit", queue=15_000)
    with wan({"bank": Side(), "telco": side}) as net:
        assert raw_socket_throughput(net, "telco", 1_000_000) <= 20e6 / 8
        from_hub, to_hub = net.counts("telco")
        assert to_hub.no_room > 0
        assert to_hub.bytes > 1_000_000 > from_hub.bytes > 0


def test_large_packets_go_through(wan):
    with wan({"bank": Side(), "telco": Side(latency="1ms")}, mtu=9000) as net:
        assert raw_socket_throughput(net, "telco", 2_000_000) > 0
        to_hub = net.counts("telco")[1]
        assert to_hub.bytes / to_hub.packets > 3000


def test_a_cut_stops_traffic_and_heals(wan):
    with wan({"bank": Side(), "telco": Side(), "insurer": Side()}) as net:
        port = echo(net)
        assert len(ping(net, "telco", port, 3)) == 3
        net.cut("telco")
        assert ping(net, "telco", port, 3, patience_s=0.3) == []
        assert len(ping(net, "insurer", port, 3)) == 3
        net.heal("telco")
        assert len(ping(net, "telco", port, 3)) == 3
        assert net.counts("telco")[1].cut == 3


def test_a_partition_heals_by_itself_and_a_connection_lives_through_it(wan):
    with wan({"bank": Side(), "telco": Side(latency="5ms", rate="10mbit")}) as net:
        net.partition("telco", 1.0)
        start = time.monotonic()
        assert raw_socket_throughput(net, "telco", 100_000) > 0
        assert time.monotonic() - start > 0.9
        assert net.counts("telco")[1].cut > 0


def test_loss_drops_its_share_in_both_directions(wan):
    with wan({"bank": Side(), "telco": Side(loss=0.2)}, seed=3) as net:
        back = len(ping(net, "telco", echo(net), 2000, gap_s=0.0005))
        assert 0.58 < back / 2000 < 0.70  # 0.8 squared is 0.64
        for counts in net.counts("telco"):
            assert 0.16 < counts.lost / (counts.lost + counts.packets) < 0.24
        net.set("telco", loss=0.0)
        assert len(ping(net, "telco", echo(net), 20)) == 20


def test_a_reset_breaks_the_connections_of_one_host(wan):
    with wan({"bank": Side(), "telco": Side(), "insurer": Side()}) as net:
        client = {}
        for host in ("telco", "insurer"):
            receiver = [sys.executable, "-m", "tests.wan.raw", "receive", net.hub.address]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            server = net.hub.popen(receiver, cwd=ROOT, **pipes)
            words = [net.hub.address, server.stdout.readline().strip()]
            client[host] = net.host(host).popen([sys.executable, "-c", CONNECT, *words], **pipes)
            assert client[host].stdout.readline() == "connected\n"
            client[host].server = server
        assert net.reset("telco") == 1
        assert client["telco"].stdout.readline() == "ConnectionAbortedError\n"
        assert "ConnectionResetError" in client["telco"].server.communicate(timeout=20)[1]
        assert client["insurer"].poll() is None
        assert client["insurer"].server.poll() is None


def test_two_wans_at_once_do_not_meet(wan):
    with wan({"bank": Side(), "telco": Side(latency="1ms")}) as near:
        with wan({"bank": Side(), "telco": Side(latency="40ms")}) as far:
            assert near.hub.address == far.hub.address
            near_port, far_port = echo(near), echo(far)
            assert min(ping(far, "telco", far_port, 5)) >= 0.080
            assert min(ping(near, "telco", near_port, 5)) < 0.080
        assert len(ping(near, "telco", near_port, 3)) == 3


def test_nothing_is_left_behind(wan):
    with wan({"bank": Side(), "telco": Side()}) as net:
        assert len(left_over(net.relay_pid)) == 2
        sleeper = net.host("telco").popen(["sleep", "600"])
        # A grandchild that nobody waits for.
        shell = ["sh", "-c", "sleep 601 & echo $!"]
        orphan = int(net.host("bank").popen(shell, stdout=subprocess.PIPE).stdout.readline())
        assert alive(orphan)
    assert left_over(net.relay_pid) == []
    assert not alive(net.relay_pid)
    assert sleeper.returncode == -signal.SIGKILL
    until(lambda: not alive(orphan))


def test_a_test_that_fails_leaves_nothing_behind(wan):
    with pytest.raises(ZeroDivisionError), wan({"bank": Side(), "telco": Side()}) as net:
        _ = 1 / 0
    assert left_over(net.relay_pid) == []
    assert not alive(net.relay_pid)


def test_a_killed_test_leaves_nothing_behind(wan):
    with subprocess.Popen([sys.executable, "-c", HANG], cwd=ROOT, stdout=subprocess.PIPE) as owner:
        relay_pid, sleeper_pid = map(int, owner.stdout.readline().split())
        assert len(left_over(relay_pid)) == 2
        owner.kill()
        owner.wait()
    until(lambda: not left_over(relay_pid))
    until(lambda: not alive(relay_pid) and not alive(sleeper_pid))


def test_a_relay_that_dies_is_noticed_and_swept(wan):
    with wan({"bank": Side(), "telco": Side()}) as net:
        os.kill(net.relay_pid, signal.SIGKILL)
        with pytest.raises((AssertionError, OSError)):
            net.cut("telco")
    assert left_over(net.relay_pid) == []
