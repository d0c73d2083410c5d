# SPDX-License-Identifier: Apache-2.0
"""The C header ``dmace_endpoint.h``: the address map of an endpoint, used with ``dmace.h`` and ``dmace_ace.h``."""

from hw.regs import to_c_header

from .config import REMOTE_BIT, REMOTE_EXPORT_LSB, REMOTE_PORT_LSB, EndpointConfig
from .registers import WINDOWS, register_map

__all__ = ["c_header"]

PREFIX = "DMACE_ENDPOINT"

_TEXT = """\
/* dmace_endpoint.h: a DMA engine and a collectives accelerator behind one port of each kind.
 *
 * Offsets of dmace.h, dmace_ace.h and of this file's registers count from their windows. C11, C++17, CUDA device code.
 */
#ifndef DMACE_ENDPOINT_H
#define DMACE_ENDPOINT_H

#include "dmace.h"
#include "dmace_ace.h"

@TABLES@

/* Doorbell pages, from the first address of s_axi_db. */
#define DMACE_ENDPOINT_DMA_DOORBELL(queue) ((uint64_t)(queue) * DMACE_DMA_DOORBELL_PAGE)
#define DMACE_ENDPOINT_ACE_DOORBELL(queue) ((DMACE_DMA_QUEUES + (uint64_t)(queue)) * DMACE_DMA_DOORBELL_PAGE)

/* Address of a byte of a span that the neighbour at a port exports: for REGION_BASE, QUEUE_RC and CONNECTION_RC. */
#define DMACE_ENDPOINT_REMOTE(port, span, offset) @REMOTE@

#endif /* DMACE_ENDPOINT_H */
"""


def c_header(config: EndpointConfig) -> str:
    """Text of ``dmace_endpoint.h`` for an endpoint of these sizes."""
    windows = ["/* Windows of s_axil. */", *(f"#define {PREFIX}_{'OWN' if name == 'ENDPOINT' else name}_REGISTERS "
                                             f"0x{offset:04x}u" for name, offset in WINDOWS.items())]
    tables = [*windows, "", to_c_header(register_map(config), PREFIX).rstrip()]
    remote = (f"(UINT64_C(1) << {REMOTE_BIT} | (uint64_t)(port) << {REMOTE_PORT_LSB} \\\n"
              f"    | (uint64_t)(span) << {REMOTE_EXPORT_LSB} | (uint64_t)(offset))")
    return _TEXT.replace("@TABLES@", "\n".join(tables)).replace("@REMOTE@", remote)
