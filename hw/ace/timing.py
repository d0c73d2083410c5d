# SPDX-License-Identifier: Apache-2.0
"""Timing options of a collectives accelerator."""

from dataclasses import dataclass

from hw.common.timing import TimingOptions

__all__ = ["AceTimingOptions"]


@dataclass(frozen=True, kw_only=True)
class AceTimingOptions(TimingOptions):
    """Cuts of a collectives accelerator's critical paths, each independent of the others.

    With all of them a hop takes eight cycles more: four in the SRAM, one in the replay buffer, one in the receive
    buffer, and two for CRCs.

    Parameters
    ----------
    sram_output_register : bool
        From the SRAM's block RAM to the multiplexer of its reader. One cycle for each read of the SRAM; two for each
        hop, which reads when a packet is received and when it is sent.
    sram_word_register : bool
        From the multiplexer of the SRAM's reader to the stages behind it: lanes, replay buffer, divider. Cycles as
        with ``sram_output_register``.
    replay_output_register : bool
        From the replay buffer's block RAM to the choice of a packet and its CRC. One cycle for each packet on a link;
        none where the buffer is LUT RAM.
    receive_output_register : bool
        From the receive buffer's block RAM, and the loopback's, to the stages behind them. One cycle for each packet on
        a link, two in the loopback; none where the buffer is LUT RAM.
    registered_header_crc : bool
        From a packet's header to its CRC, at both ends of a link: that of the header is computed a cycle before that of
        the payload, and needs fewer LUTs for it. Two cycles for each packet on a link.
    receive_skid : bool
        From the arbitration of the SRAM's banks back to the ports: a skid buffer holds the beat. No cycle.
    registered_release : bool
        From the window's block RAM to the occupancy of the replay buffer: acknowledged packets leave it a cycle later.
    registered_root : bool
        From a command's root to its coordinates and neighbours. One cycle for each command.
    registered_compare : bool
        From the end of a buffer to the comparison with its region. One cycle for each command.
    lut_ram_tables : bool
        From the region tables' block RAM to the checks: up to 32 regions are in LUT RAM. No cycle.
    registered_move_address : bool
        From a job to the adder of a move's address: the base is added a cycle before the offset. No cycle.
    registered_move_limit : bool
        From a job to the length of a move: the last offset of a whole piece is computed ahead. No cycle. Has no
        effect in an accelerator with ``varying``, where each part of a job has a limit of its own.
    burst_skid : bool
        From the credits of fill and the AW channel of drain back to the cutting of moves: a skid buffer holds the
        burst. No cycle.
    fill_output_registers : bool
        From the memories of outstanding reads and of read data to the rotator. One cycle for each read of memory.
    registered_read_credits : bool
        From fill's credit counter to AR. One cycle for each burst, which takes two cycles at least.
    registered_drain_credits : bool
        From WREADY to drain's credit counter: a beat's credit returns a cycle later, and ``reads_in_flight`` covers
        that. No cycle.
    response_output_register : bool
        From the memory of outstanding write responses to the end of a chunk. No cycle.
    registered_drain_requests : bool
        From the choice of an FSM that has finished to the queue of chunks to drain. One cycle for each chunk.
    registered_abort_requests : bool
        From an ABORT that waits to the choice of a send: the port stops taking packets a cycle later. No cycle.
    speculative_port_credits : bool
        From a send that is taken to its port's occupancy: computed both with and without the send. No cycle.
    """

    sram_output_register: bool = False
    sram_word_register: bool = False
    replay_output_register: bool = False
    receive_output_register: bool = False
    registered_header_crc: bool = False
    receive_skid: bool = False
    registered_release: bool = False
    registered_root: bool = False
    registered_compare: bool = False
    lut_ram_tables: bool = False
    registered_move_address: bool = False
    registered_move_limit: bool = False
    burst_skid: bool = False
    fill_output_registers: bool = False
    registered_read_credits: bool = False
    registered_drain_credits: bool = False
    response_output_register: bool = False
    registered_drain_requests: bool = False
    registered_abort_requests: bool = False
    speculative_port_credits: bool = False
