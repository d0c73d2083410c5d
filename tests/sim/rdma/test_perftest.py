# SPDX-License-Identifier: Apache-2.0
"""The server of perftest's clients, with a client in Python that sends what perftest 6 does."""

import socket
from dataclasses import replace
from ipaddress import ip_address

import pytest

from sim.rdma.perftest import Keys, PerftestFailed, PerftestServer, Tool

CLIENT = Keys(qpn=0x11, psn=0xABCDEF, reads=128, rkey=0x4D9, address=0x5600_385C_5388,
              gid=ip_address("::ffff:10.0.0.2").packed)
OWN = Keys(qpn=0x202, psn=5, reads=4, rkey=0x55A, address=0x7700_0000_0010, gid=ip_address("fd00::1").packed)
TEXT = (b"0000:0080:000011:abcdef:000004d9:00005600385c5388:"
        b"00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:02:00000000:\0")
GREETING = (b"6.06".ljust(16, b"\0"), b"\0\0\x10\0", b"\0\0\0\x40", b"3\0")


class Client:
    """A client whose server runs in the same thread."""

    def __init__(self, server):
        self.server, self.socket = server, socket.create_connection(("127.0.0.1", server.port), 5)
        self.socket.settimeout(5)

    def exchange(self, message):
        self.socket.sendall(message)
        response = b""
        self.socket.setblocking(False)
        for _ in range(100_000):
            self.server.poll()
            try:
                response += self.socket.recv(4096)
            except BlockingIOError:
                pass
            if len(response) >= len(message):
                break
        assert len(response) == len(message)
        return response

    def end(self, message=b""):
        self.socket.setblocking(True)
        self.socket.sendall(message)
        self.socket.close()
        for _ in range(100_000):
            self.server.poll()
            if self.server.done:
                break


@pytest.fixture
def started():
    """``started(tool)``: a server, a client of it, and the keys that the server has received."""
    open_ones = []

    def start(tool):
        received = []
        server = PerftestServer(tool, lambda keys: (received.append(keys), OWN)[1])
        server.__enter__()
        client = Client(server)
        open_ones.extend((client.socket, server))
        return server, client, received

    yield start
    for one in open_ones:
        one.__exit__(None, None, None)


def test_keys():
    assert CLIENT.encode() == TEXT and Keys.decode(TEXT) == CLIENT and len(TEXT) == 108
    assert Keys.decode(OWN.encode()) == OWN
    for wrong in (TEXT[:-1], TEXT.replace(b":0a:", b":0g:"), TEXT[:-1] + b"1", TEXT + b"\0"):
        with pytest.raises(PerftestFailed, match=r"^A client's keys have the form of perftest 6 with a GID, not b'00"):
            Keys.decode(wrong)


@pytest.mark.parametrize("tool", Tool)
def test_exchange(started, tool):
    server, client, received = started(tool)
    for message in GREETING:
        assert client.exchange(message) == message
    for _ in range(3 if tool.bandwidth else 4):
        assert not server.ready
        assert client.exchange(TEXT) == OWN.encode()
    assert server.ready and received == [CLIENT] and server.client == CLIENT
    if tool is Tool.WRITE_LAT:
        assert server.done
        return
    assert not server.done
    if tool.bandwidth:
        assert client.exchange(TEXT) == OWN.encode()
        for number in range(5):
            assert client.exchange(bytes([number]) * 8) == bytes([number]) * 8
    assert client.exchange(TEXT) == OWN.encode() and not server.done
    client.end(b"done\0")
    assert server.done


def test_a_client_that_ends_early(started):
    _, client, _ = started(Tool.READ_LAT)
    client.exchange(GREETING[0])
    with pytest.raises(PerftestFailed, match=r"^The client has closed the connection after 3 of 4 bytes of a mess"):
        client.end(b"abc")


def test_other_messages(started):
    server, client, _ = started(Tool.READ_LAT)
    for message in (*GREETING, TEXT):
        client.exchange(message)
    with pytest.raises(PerftestFailed, match=r"^A client's keys have changed\.$"):
        client.exchange(replace(CLIENT, psn=1).encode())
    server, client, _ = started(Tool.READ_LAT)
    for message in (*GREETING, *[TEXT] * 5):
        client.exchange(message)
    with pytest.raises(PerftestFailed, match=r'^The last message of a client is not "done"\.$'):
        client.end(b"gone\0")
    assert not server.done


def test_there_is_no_client_yet():
    with PerftestServer(Tool.READ_BW, lambda keys: OWN) as server:
        server.poll()
        assert server.port and not server.ready and not server.done and server.client is None
