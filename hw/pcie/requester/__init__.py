# SPDX-License-Identifier: Apache-2.0
"""The requester: reads and writes of ``s_axi`` as requests on RQ and completions on RC."""
