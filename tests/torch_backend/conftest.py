# SPDX-License-Identifier: Apache-2.0
"""Clusters for the processes of the tests, each for all tests of a session that need its options."""

import pytest

from tests.cluster_server.test_processes import cluster


@pytest.fixture(scope="session")
def clusters(tmp_path_factory):
    """``clusters(*options)``: the socket of a cluster with these options of ``dmace cluster``."""
    running, paths = [], {}

    def path(*options):
        if options not in paths:
            one = cluster(tmp_path_factory.mktemp("cluster"), *options)
            paths[options] = one.__enter__()
            running.append(one)
        return paths[options]

    yield path
    for one in running:
        one.__exit__(None, None, None)
