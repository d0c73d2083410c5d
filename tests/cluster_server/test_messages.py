# SPDX-License-Identifier: Apache-2.0
"""Messages that no client sends: their sender is refused, the other rank learns why, and the session ends."""

import array
import json
import os
import socket
import threading

import pytest

from dmace.cluster_client.protocol import VERSION, encode, listen, receive
from sim.cluster_server.server import Session

HELLO = {"type": "hello", "version": VERSION, "size": 2}
GROUP = {"type": "group", "name": "world", "communicator": 0, "ranks": [0, 1]}
OTHER = {**GROUP, "name": "other"}
COLLECTIVE = {"type": "collective", "number": 1, "group": "world", "collective": "BARRIER"}


class Accelerators:
    """Two ranks, which no test lets run a collective."""

    puts = False

    def communicators(self):
        return [{"groups": [[0, 1]], "left_out": {}}]

    def close(self):
        pass


@pytest.fixture
def session(tmp_path):
    """Connects to a session of two ranks, which must have ended when all connections have."""
    connections, path = [], str(tmp_path / "cluster")
    with listen(path) as listener:
        thread = threading.Thread(
            target=Session(listener, (2,), 4096, lambda descriptors: Accelerators(), wait=60).serve, daemon=True)
        thread.start()

        def connect():
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(60)
            connection.connect(path)
            connections.append(connection)
            return connection

        yield connect
        for connection in connections:
            connection.close()
        thread.join(60)
        assert not thread.is_alive()


def welcomed(connection):
    """Receive the welcome, and close the memory that comes with it."""
    packet, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 1)
    for descriptor in array.array("i", descriptors):
        os.close(descriptor)
    assert json.loads(packet)["type"] == "welcome"


@pytest.mark.parametrize("wrong", [
    b"[" * 100_000, b"nothing", b"[]", b"{}", b'{"type": 1}',
    encode({"type": "group"}), encode({**GROUP, "ranks": [1, 0]}),
    encode({**OTHER, "communicator": 1}), encode({**OTHER, "communicator": -1}),
    encode({**OTHER, "communicator": "first"}), encode({**OTHER, "communicator": float("inf")}),
    encode({**OTHER, "ranks": [0, 2]}), encode({**OTHER, "ranks": 7}),
    encode({**COLLECTIVE, "group": "nowhere"}), encode({"type": "collective"}),
    encode({**COLLECTIVE, "extents": {"send": 1}}), encode({"type": "hello"}), encode({"type": "run"}),
], ids=lambda packet: str(packet[:60]))
def test_sender_is_refused(session, wrong):
    good, bad = session(), session()
    for rank, connection in enumerate((good, bad)):
        connection.send(encode({**HELLO, "rank": rank}))
    for connection in (good, bad):
        welcomed(connection)
    good.send(encode(GROUP))
    good.send(encode(COLLECTIVE))
    bad.send(wrong)
    assert receive(bad)["type"] == "refused"
    response = receive(good)
    assert response["type"] == "failed" and response["number"] == 1 and "Rank 1 was refused: " in response["reason"]


@pytest.mark.parametrize("wrong", [
    {"rank": 2}, {"rank": -1}, {"rank": "x"}, {"rank": float("nan")}, {"rank": float("inf")},
    {"rank": 0, "size": 3}, {"rank": 0, "version": VERSION + 1}, {}], ids=str)
def test_wrong_hello_leaves_the_session(session, wrong):
    stranger, ranks = session(), [session(), session()]
    stranger.send(encode({**HELLO, **wrong}))
    assert receive(stranger)["type"] == "refused"
    for rank, connection in enumerate(ranks):
        connection.send(encode({**HELLO, "rank": rank}))
    for connection in ranks:
        welcomed(connection)
