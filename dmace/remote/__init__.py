# SPDX-License-Identifier: Apache-2.0
"""Remote machines as devices with memory, and graphs of operations over several machines (docs/remote.md).

==================  =================================================================================================
file                contents
==================  =================================================================================================
``machine``         the interface of a machine: pool, queues of a DMA engine, time
``pool``            allocator of registered memory
``future``          results that arrive later
``queue``           a queue of a DMA engine, with credits
``local``           this machine: allocate, view
``device``          a remote machine: allocate, free, read, write, write with flag
``static``          a tensor of known shape, written into the receiver's buffer
``dynamic``         a tensor of any shape, read by the receiver
``rpc``             the baseline: messages and copies
``tensor``          shape, type and memory order of a tensor
``graph``           operations and tensors, and the machines of the operations
``plan``            the tensors that cross machines, and how each is carried
``step``            runs a graph over machines with a plan
``fx``              graphs of PyTorch
==================  =================================================================================================
"""
