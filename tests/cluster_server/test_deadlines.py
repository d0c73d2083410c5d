# SPDX-License-Identifier: Apache-2.0
"""The time limit of a rank's collective holds whatever else the cluster says."""

import socket
import threading
import time

from dmace.cluster_client.client import ClusterClient
from dmace.cluster_client.protocol import VERSION, encode, listen, receive
from sim.cluster_server.accelerators import rank_memory

OTHERS = 200
LATE = "BARRIER of group world has not completed at rank 0 within 0.5 s."


def test_other_messages_do_not_extend_it(tmp_path):
    """All collectives but the first get a response at once, and the rank takes 20 ms for each response."""
    path, all_posted, done = str(tmp_path / "cluster"), threading.Event(), threading.Event()
    outcomes = {}

    def serve(listener):
        connection, _ = listener.accept()
        with connection:
            assert receive(connection)["type"] == "hello"
            welcome = {"type": "welcome", "version": VERSION, "shape": [2], "memory": 4096, "puts": False,
                       "communicators": [{"groups": [[0, 1]], "left_out": {}}]}
            socket.send_fds(connection, [encode(welcome)], [rank_memory(0, 4096)])
            all_posted.wait(20)
            try:
                for number in range(1, OTHERS):
                    connection.send(encode({"type": "failed", "number": number, "reason": "refused by the test"}))
            except OSError:
                pass    # the rank has left
            done.wait(20)

    def completion(number):
        def ends(outcome):
            outcomes[number] = str(outcome)
            if number == 0:
                done.set()
            elif outcomes[number] == "refused by the test":
                time.sleep(0.02)

        return ends

    with listen(path) as listener:
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        client = ClusterClient(path, 0, 2, timeout=30)
        client.open_group("world", [0, 1])
        for number in range(OTHERS):
            client.post(completion(number), timeout=0.5 if number == 0 else 30, group="world", collective="BARRIER")
        all_posted.set()
        assert done.wait(20)
        client.close()
        server.join(20)
    assert outcomes[0] == LATE
    assert len(outcomes) == OTHERS and 0 < list(outcomes.values()).count("refused by the test") < OTHERS - 1
