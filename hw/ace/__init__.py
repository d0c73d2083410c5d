"""ACE, the collectives accelerator.  So far its arithmetic: the rest is not here yet.

::

    two words -> alu.Lane: convert.Widen -> fp_add -> convert.Narrow -> one word
                           integer ----------------/

``formats`` is what software sees too; ``model_numerics`` is the golden model of a lane, ``model`` that of a whole
collective. ``schedule`` makes the step tables that software writes.
"""
