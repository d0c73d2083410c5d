# SPDX-License-Identifier: Apache-2.0
"""The pins of the UltraScale+ PCIe hard block (PG213), seen from the adapter, under the vendor's names.

The four packet interfaces are AXI4-Stream in DW-aligned mode; ``tkeep`` has a bit per double word. Parity is not used.
"""

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = [
    "ConfigurationSignature", "PacketSignature", "cc_user_layout", "cq_user_layout", "rc_user_layout", "rq_user_layout",
]


def _sized(layout: dict[str, int], width: int) -> data.StructLayout:
    """Reserve the remaining bits: parity and what the adapter does not use."""
    used = sum(layout.values())
    return data.StructLayout({**layout, "_unused": width - used})


def rq_user_layout(data_width: int) -> data.StructLayout:
    """``tuser`` of RQ: with 512 bits, fields for two TLPs in a beat, the first of them in the lower bits.

    ``first_be``, ``last_be``: byte enables of the first and last DW. ``starts``: TLPs that start in the beat, as ones
    from bit 0 on; ``start_0`` and ``start_1``: where, in units of four DW. ``ends``: likewise; ``end_0`` and ``end_1``:
    DW with the last payload. ``discontinue`` drops the TLP.
    """
    if data_width == 512:
        return _sized({
            "first_be_0": 4, "first_be_1": 4, "last_be_0": 4, "last_be_1": 4, "address_offset": 4, "starts": 2,
            "start_0": 2, "start_1": 2, "ends": 2, "end_0": 4, "end_1": 4, "discontinue": 1, "hint": 24,
            "sequence_0": 6, "sequence_1": 6}, 137)
    return _sized({"first_be": 4, "last_be": 4, "address_offset": 3, "discontinue": 1, "hint": 12,
                   "sequence_low": 4, "parity": 32, "sequence_high": 2}, 62)


def rc_user_layout(data_width: int) -> data.StructLayout:
    """``tuser`` of RC; with 512 bits, starts and ends as on RQ, for up to four."""
    if data_width == 512:
        return _sized({
            "byte_en": 64, "starts": 4, "start_0": 2, "start_1": 2, "start_2": 2, "start_3": 2, "ends": 4, "end_0": 4,
            "end_1": 4, "end_2": 4, "end_3": 4, "discontinue": 1}, 161)
    return _sized({"byte_en": 32, "start_0": 1, "start_1": 1, "end_0": 4, "end_1": 4, "discontinue": 1}, 75)


def cq_user_layout(data_width: int) -> data.StructLayout:
    """``tuser`` of CQ; without straddling, the fields of the second TLP are unused."""
    if data_width == 512:
        return _sized({
            "first_be_0": 4, "first_be_1": 4, "last_be_0": 4, "last_be_1": 4, "byte_en": 64, "starts": 2, "start_0": 2,
            "start_1": 2, "ends": 2, "end_0": 4, "end_1": 4, "discontinue": 1}, 183)
    return _sized({"first_be": 4, "last_be": 4, "byte_en": 32, "start": 1, "discontinue": 1}, 88)


def cc_user_layout(data_width: int) -> data.StructLayout:
    """``tuser`` of CC; without straddling, only ``discontinue`` and the first TLP's fields are used."""
    if data_width == 512:
        return _sized({
            "starts": 2, "start_0": 2, "start_1": 2, "ends": 2, "end_0": 4, "end_1": 4, "discontinue": 1}, 81)
    return _sized({"discontinue": 1}, 33)


class PacketSignature(wiring.Signature):
    """One AXI4-Stream interface of TLPs, seen from its source.

    Parameters
    ----------
    data_width : int
        128, 256 or 512.
    user : data.StructLayout
        Layout of ``tuser``.

    Members
    -------
    tdata, tkeep, tlast, tuser, tvalid : ``Out``; tready : ``In``
        With 512 bits, ``tuser`` has where TLPs start and end, and ``tlast`` and ``tkeep`` have no meaning while
        straddling is on.
    """

    def __init__(self, data_width: int, user: data.StructLayout) -> None:
        super().__init__({
            "tdata": Out(data_width), "tkeep": Out(data_width // 32), "tlast": Out(1), "tuser": Out(user.size),
            "tvalid": Out(1), "tready": In(1),
        })


class ConfigurationSignature(wiring.Signature):
    """Status and control of the hard block, seen from the adapter.

    Members
    -------
    cfg_max_payload : ``In(2)``, cfg_max_read_req : ``In(3)``
        MPS and MRRS: 128 bytes shifted left by this number.
    cfg_function_status : ``In(16)``
        Of function 0: I/O, memory and bus-master enable, INTx disable (bits 0 to 3).
    cfg_flr_in_process : ``In(4)``, cfg_flr_done : ``Out(4)``
        Function-level reset, a bit per function.
    cfg_interrupt_msix_enable, cfg_interrupt_msix_mask : ``In(4)``
        MSI-X enable and function mask, a bit per function.
    cfg_phy_link_down : ``In(1)``
    cfg_mgmt_addr : ``Out(10)``, cfg_mgmt_read, cfg_mgmt_write : ``Out(1)``, cfg_mgmt_read_data : ``In(32)``,
    cfg_mgmt_read_write_done : ``In(1)``
        Reads of the configuration space, in units of a DW.
    pcie_cq_np_req : ``Out(2)``
        Credit for non-posted requests on CQ.
    pcie_rq_seq_num0, pcie_rq_seq_num1 : ``In(6)``, pcie_rq_seq_num_vld0, pcie_rq_seq_num_vld1 : ``In(1)``
        Sequence numbers of requests that have left the hard block's transmit pipeline.
    """

    def __init__(self) -> None:
        super().__init__({
            "cfg_max_payload": In(2), "cfg_max_read_req": In(3), "cfg_function_status": In(16),
            "cfg_flr_in_process": In(4), "cfg_flr_done": Out(4),
            "cfg_interrupt_msix_enable": In(4), "cfg_interrupt_msix_mask": In(4), "cfg_phy_link_down": In(1),
            "cfg_mgmt_addr": Out(10), "cfg_mgmt_read": Out(1), "cfg_mgmt_write": Out(1),
            "cfg_mgmt_read_data": In(32), "cfg_mgmt_read_write_done": In(1),
            "pcie_cq_np_req": Out(2),
            "pcie_rq_seq_num0": In(6), "pcie_rq_seq_num_vld0": In(1),
            "pcie_rq_seq_num1": In(6), "pcie_rq_seq_num_vld1": In(1),
        })
