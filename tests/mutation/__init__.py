# SPDX-License-Identifier: Apache-2.0
"""The mutation score of the `tiny` engines: ``make mutants``, or ``python -m tests.mutation``.

A mutant is the engine with one small bug, such as an operator exchanged or a register without a reset. The score is the
share of the mutants that the fast set finds, of those that are not equivalent to the original
(``docs/verification.md``).

``netlist`` reads Amaranth's RTLIL, ``operators`` has the kinds of bugs, ``pool`` lists the mutants that are examined,
``schemata`` puts them into one netlist, ``designs`` builds it, ``fast_set`` has the runs, ``runner`` makes them,
``equivalence`` compares a survivor with the original, ``explained`` lists known survivors, ``report`` counts. Bugs that
proofs find are in :mod:`tests.formal.mutants`.
"""
