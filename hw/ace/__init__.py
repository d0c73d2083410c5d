# SPDX-License-Identifier: Apache-2.0
"""ACE, the collectives accelerator.

::

    s_axi_db -> doorbell -> queues -> decoder -> operations -> chunker -> transfers
    s_axil -> control -> communicators, programs, regions                     |
                                                                              v
    m_axi.R -> fill -> SRAM -> transmit -> links -> receive, alu_array -> SRAM -> drain -> m_axi.W
                                 ^                     |
                                 +-- pool of FSMs <----+

``config``, ``formats``, ``words`` and ``registers`` are shared with software; ``programs.schedule`` makes the programs
that software writes. ``model`` is the golden model of the collectives and of a lane's arithmetic.
"""
