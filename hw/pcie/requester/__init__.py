# SPDX-License-Identifier: Apache-2.0
"""The requester: reads and writes of ``s_axi`` as memory requests on RQ, with their completions from RC.

::

    s_axi -> AxiStreams -+-> ReadPath --> RequestPacker -> RQ
                         |      ^
                         |      +-------- CompletionUnpacker <- RC
                         +-> WritePath -> RequestPacker
"""
