# SPDX-License-Identifier: Apache-2.0
"""ACE, the collectives accelerator.

::

    s_axi_db -> doorbell -> intake -> decoder -> operations -> chunker -> transfers
    s_axil -> control -> communicators, programs, regions                     |
                                                                              v
    m_axi.R -> fill -> SRAM -> transmit -> links -> receive, alu_array -> SRAM -> drain -> m_axi.W
                                 ^                     |
                                 +-- pool of FSMs <----+

``config``, ``formats``, ``words`` and ``registers`` are what software sees too; ``schedule`` makes the step tables that
it writes. ``model`` is the golden model of a collective, ``model_numerics`` that of a lane.
"""
