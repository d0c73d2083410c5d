# SPDX-License-Identifier: Apache-2.0
"""The ports of a RoCEv2 unit, and ``pins.h``: positions of the fields in its packed stream payloads, for C++."""

from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi.signature import AxiLiteSignature, AxiStreamSignature
from hw.rdma.config import RdmaConfig
from hw.rdma.layouts import read_beat_layout, read_layout, response_layout, write_layout

__all__ = ["BUS_ADDR_WIDTH", "STREAMS", "pins_header", "unit_members"]

BUS_ADDR_WIDTH = 12

STREAMS = ("writes", "responses", "reads", "beats", "memory_writes", "memory_responses", "memory_reads", "memory_beats")


def unit_members(config: RdmaConfig) -> dict[str, wiring.Member]:
    """Members of ``RdmaUnit(config)``.

    Those of the DMA engine's side, then those of memory, registers, the Ethernet port, other traffic, the interrupt.
    """
    writes, responses = stream.Signature(write_layout(config)), stream.Signature(response_layout(config))
    reads, beats = stream.Signature(read_layout(config)), stream.Signature(read_beat_layout(config))
    frames = AxiStreamSignature(data_width=config.data_width)
    return {
        "writes": In(writes), "responses": Out(responses), "reads": In(reads), "beats": Out(beats),
        "memory_writes": Out(writes), "memory_responses": In(responses), "memory_reads": Out(reads),
        "memory_beats": In(beats), "bus": In(AxiLiteSignature(addr_width=BUS_ADDR_WIDTH, data_width=32)),
        "mac_tx": Out(frames), "mac_rx": In(frames), "other_tx": In(frames), "other_rx": Out(frames), "irq": Out(1),
    }


def pins_header(component: wiring.Component) -> str:
    """Text of ``pins.h`` for a component with the ports of a RoCEv2 unit."""
    members: Any = component.signature.members
    lines = ["#pragma once", '#include "payload.h"']
    for name in STREAMS:
        layout = members[name].signature.members["payload"].shape
        lines += [f"namespace pins::{name} {{", f"constexpr size_t kBits = {Shape.cast(layout).width};"]
        lines += [f"constexpr Field k_{field}{{{place.offset}, {Shape.cast(place.shape).width}}};"
                  for field, place in layout]
        lines += ["}"]
    width = members["mac_tx"].signature.data_width
    id_bits = Shape.cast(members["memory_reads"].signature.members["payload"].shape["id"].shape).width
    lines += [f"constexpr unsigned kDataBytes = {width // 8}, kIdBits = {id_bits};"]
    return "\n".join(lines) + "\n"
