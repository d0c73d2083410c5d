# SPDX-License-Identifier: Apache-2.0
"""Coverage of the `tiny` engines: ``make coverage``, or ``python -m tests.coverage``.

``dat`` reads Verilator's data, ``branches`` maps lines of the Verilog to Amaranth's source, ``bins`` and ``observed``
count requests and collectives by their properties, ``runs`` builds the simulators and makes the runs, ``page`` writes
``build/coverage/index.html``.
"""
