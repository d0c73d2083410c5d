# SPDX-License-Identifier: Apache-2.0
"""AMD's IP around the PCIe hard block of UltraScale+: its ports, and the options that fit the adapter.

Sources: PG213 v1.3 for the meaning of ports and options. Names and widths of ports: declarations that Vivado has
written for this IP with MSI-X External, 2023.2 for 128 bits x4 and 2018.3 for 512 bits x16. Names of options and their
values: files of Corundum, LiteX and CESNET's NDK for this IP; alignment, parity, function-level reset and the straddle
of CC only from the parameters of its variant with Gen4 in aws-fpga (hdk/common/ip/cl_ip, pcie_bridge_ep_pcie4c_ip.xci).
"""

from dataclasses import dataclass

from hw.pcie.config import MAX_PAYLOAD_BYTES, TAG_WIDTH, PcieConfig
from hw.pcie.registers import BAR0_BITS, MSIX_PENDING, MSIX_TABLE

__all__ = ["IDS", "IP", "LANES", "MODULE", "TIED", "UNUSED", "Port", "options", "ports"]

IP = "xilinx.com:ip:pcie4_uscale_plus:1.3"

MODULE = "pcie4_uscale_plus_0"
"""Name of the IP's module in a project."""

LANES = {128: 4, 256: 8, 512: 16}
"""Lanes of Gen3 that each data width carries at 250 MHz."""

IDS = {"vendor_id": "1234", "PF0_DEVICE_ID": "D3AC", "PF0_SUBSYSTEM_VENDOR_ID": "1234", "PF0_SUBSYSTEM_ID": "0001"}
"""Vendor and device in configuration space. PCI-SIG has not assigned a vendor ID to the project; Corundum uses 1234,
too. With the IP's own IDs, AMD's drivers would load."""

CLASS_CODE = "120000"
"""Processing accelerator (PCI Code and ID Assignment Specification, base class 12h)."""


@dataclass(frozen=True)
class Port:
    """A port of the IP. ``direction``: ``input`` or ``output``."""

    name: str
    direction: str
    width: int


_STREAMS = {"s_axis_rq": (62, 137), "m_axis_rc": (75, 161), "m_axis_cq": (88, 183), "s_axis_cc": (33, 81)}
"""Bits of ``tuser`` up to 256 bits of data, and with 512."""

_READY = {"s_axis_rq": 4, "s_axis_cc": 4}
"""Bits of ``tready``, all of them equal, where the IP is the receiver."""

_OUTPUTS = {
    "user_clk": 1, "user_reset": 1, "user_lnk_up": 1, "phy_rdy_out": 1,
    "pcie_rq_seq_num0": 6, "pcie_rq_seq_num_vld0": 1, "pcie_rq_seq_num1": 6, "pcie_rq_seq_num_vld1": 1,
    "pcie_rq_tag0": 8, "pcie_rq_tag1": 8, "pcie_rq_tag_av": 4, "pcie_rq_tag_vld0": 1, "pcie_rq_tag_vld1": 1,
    "pcie_tfc_nph_av": 4, "pcie_tfc_npd_av": 4, "pcie_cq_np_req_count": 6,
    "cfg_phy_link_down": 1, "cfg_phy_link_status": 2, "cfg_negotiated_width": 3, "cfg_current_speed": 2,
    "cfg_max_payload": 2, "cfg_max_read_req": 3, "cfg_function_status": 16, "cfg_function_power_state": 12,
    "cfg_vf_status": 504, "cfg_vf_power_state": 756, "cfg_link_power_state": 2,
    "cfg_mgmt_read_data": 32, "cfg_mgmt_read_write_done": 1,
    "cfg_err_cor_out": 1, "cfg_err_nonfatal_out": 1, "cfg_err_fatal_out": 1, "cfg_local_error_valid": 1,
    "cfg_local_error_out": 5, "cfg_ltssm_state": 6, "cfg_rx_pm_state": 2, "cfg_tx_pm_state": 2, "cfg_rcb_status": 4,
    "cfg_obff_enable": 2, "cfg_pl_status_change": 1,
    "cfg_tph_requester_enable": 4, "cfg_tph_st_mode": 12, "cfg_vf_tph_requester_enable": 252,
    "cfg_vf_tph_st_mode": 756,
    "cfg_msg_received": 1, "cfg_msg_received_data": 8, "cfg_msg_received_type": 5, "cfg_msg_transmit_done": 1,
    "cfg_fc_ph": 8, "cfg_fc_pd": 12, "cfg_fc_nph": 8, "cfg_fc_npd": 12, "cfg_fc_cplh": 8, "cfg_fc_cpld": 12,
    "cfg_bus_number": 8, "cfg_power_state_change_interrupt": 1,
    "cfg_flr_in_process": 4, "cfg_vf_flr_in_process": 252,
    "cfg_interrupt_sent": 1, "cfg_interrupt_msi_sent": 1, "cfg_interrupt_msi_fail": 1,
    "cfg_interrupt_msix_enable": 4, "cfg_interrupt_msix_mask": 4, "cfg_interrupt_msix_vf_enable": 252,
    "cfg_interrupt_msix_vf_mask": 252, "cfg_interrupt_msix_vec_pending_status": 1,
    "cfg_hot_reset_out": 1,
}

_INPUTS = {
    "sys_clk": 1, "sys_clk_gt": 1, "sys_reset": 1,
    "pcie_cq_np_req": 2,
    "cfg_mgmt_addr": 10, "cfg_mgmt_function_number": 8, "cfg_mgmt_write": 1, "cfg_mgmt_write_data": 32,
    "cfg_mgmt_byte_enable": 4, "cfg_mgmt_read": 1, "cfg_mgmt_debug_access": 1,
    "cfg_msg_transmit": 1, "cfg_msg_transmit_type": 3, "cfg_msg_transmit_data": 32,
    "cfg_fc_sel": 3, "cfg_dsn": 64, "cfg_power_state_change_ack": 1, "cfg_err_cor_in": 1, "cfg_err_uncor_in": 1,
    "cfg_flr_done": 4, "cfg_vf_flr_func_num": 8, "cfg_vf_flr_done": 1, "cfg_link_training_enable": 1,
    "cfg_interrupt_int": 4, "cfg_interrupt_pending": 4, "cfg_interrupt_msi_function_number": 8,
    "cfg_interrupt_msix_data": 32, "cfg_interrupt_msix_address": 64, "cfg_interrupt_msix_int": 1,
    "cfg_interrupt_msix_vec_pending": 2,
    "cfg_pm_aspm_l1_entry_reject": 1, "cfg_pm_aspm_tx_l0s_entry_disable": 1,
    "cfg_config_space_enable": 1, "cfg_req_pm_transition_l23_ready": 1, "cfg_hot_reset_in": 1,
    "cfg_ds_port_number": 8, "cfg_ds_bus_number": 8, "cfg_ds_device_number": 5,
}

_ONES = {"cfg_power_state_change_ack", "cfg_link_training_enable", "cfg_config_space_enable"}
"""The link trains, configuration is accepted, and a change of power state is acknowledged, at once."""

_DRIVEN = {"sys_clk", "sys_clk_gt", "sys_reset", "pcie_cq_np_req", "cfg_mgmt_addr", "cfg_mgmt_write", "cfg_mgmt_read",
           "cfg_flr_done"}
_READ = {"user_clk", "user_reset", "pcie_rq_seq_num0", "pcie_rq_seq_num_vld0", "pcie_rq_seq_num1",
         "pcie_rq_seq_num_vld1", "cfg_phy_link_down", "cfg_max_payload", "cfg_max_read_req", "cfg_function_status",
         "cfg_mgmt_read_data", "cfg_mgmt_read_write_done", "cfg_flr_in_process", "cfg_interrupt_msix_enable",
         "cfg_interrupt_msix_mask"}

TIED = {name: (1 << width) - 1 if name in _ONES or name == "cfg_mgmt_byte_enable" else 0
        for name, width in _INPUTS.items() if name not in _DRIVEN}
"""Inputs with constants. Most are of other options: virtual functions, root port, interrupts by the IP. The card only
reads configuration, whole words of function 0."""

UNUSED = set(_OUTPUTS) - _READ
"""Outputs that stay open."""


def ports(data_width: int, lanes: int) -> list[Port]:
    """All ports of the IP with :func:`options`."""
    listed = [Port(f"pci_exp_{name}", direction, lanes) for name, direction in (
        ("txn", "output"), ("txp", "output"), ("rxn", "input"), ("rxp", "input"))]
    for stream, users in _STREAMS.items():
        outwards, inwards = ("input", "output") if stream.startswith("s_") else ("output", "input")
        widths = {"tdata": data_width, "tkeep": data_width // 32, "tlast": 1, "tuser": users[data_width == 512],
                  "tvalid": 1}
        listed += [Port(f"{stream}_{name}", outwards, width) for name, width in widths.items()]
        listed.append(Port(f"{stream}_tready", inwards, _READY.get(stream, 1)))
    listed += [Port(name, "output", width) for name, width in _OUTPUTS.items()]
    return listed + [Port(name, "input", width) for name, width in _INPUTS.items()]


def options(config: PcieConfig) -> dict[str, str]:
    """Options of the IP, without ``CONFIG.``, for an adapter.

    MSI-X is external: the table is the adapter's, and the IP provides capability, enable and mask. The adapter sends
    messages as writes on RQ, and the IP's own interface for them is idle.
    """
    assert TAG_WIDTH == 8    # client tags, and the extended tags below
    return {
        "mode_selection": "Advanced",
        # Link.
        "PL_LINK_CAP_MAX_LINK_SPEED": "8.0_GT/s",
        "PL_LINK_CAP_MAX_LINK_WIDTH": f"X{LANES[config.data_width]}",
        "PF0_LINK_STATUS_SLOT_CLOCK_CONFIG": "true",
        "aspm_support": "No_ASPM",
        # Packets: DW-aligned, CC as CQ and RC as RQ; tags from the adapter.
        "axisten_if_width": f"{config.data_width}_bit",
        "axisten_freq": "250",
        "AXISTEN_IF_CQ_ALIGNMENT_MODE": "DWORD_Aligned",
        "AXISTEN_IF_RQ_ALIGNMENT_MODE": "DWORD_Aligned",
        **_straddle(config),
        "axisten_if_enable_client_tag": "true",
        "en_parity": "false",
        # Capabilities.
        "extended_tag_field": "true",
        "pf0_dev_cap_max_payload": f"{MAX_PAYLOAD_BYTES}_bytes",
        "PF0_DEV_CAP_FUNCTION_LEVEL_RESET_CAPABLE": "true",
        # Identity.
        **IDS,
        "PF0_Use_Class_Code_Lookup_Assistant": "false",
        "pf0_class_code_base": CLASS_CODE[:2],
        "pf0_class_code_sub": CLASS_CODE[2:4],
        "pf0_class_code_interface": CLASS_CODE[4:],
        # BARs.
        **_bar(0, 1 << BAR0_BITS, wide=False),
        **_bar(2, 1 << config.doorbell_addr_width, wide=True),
        # Interrupts.
        "PF0_INTERRUPT_PIN": "NONE",
        "pf0_msi_enabled": "false",
        "pf0_msix_enabled": "true",
        "MSI_X_OPTIONS": "MSI-X_External",
        "PF0_MSIX_CAP_TABLE_SIZE": f"{config.vectors - 1:03X}",
        "PF0_MSIX_CAP_TABLE_BIR": "BAR_0",
        "PF0_MSIX_CAP_TABLE_OFFSET": f"{MSIX_TABLE:08X}",
        "PF0_MSIX_CAP_PBA_BIR": "BAR_0",
        "PF0_MSIX_CAP_PBA_OFFSET": f"{MSIX_PENDING:08X}",
    }


def _straddle(config: PcieConfig) -> dict[str, str]:
    """Which interfaces carry parts of two TLPs in a beat; the choice exists from 256 bits on."""
    if config.data_width == 512:
        assert config.straddle
        return {"AXISTEN_IF_EXT_512_CQ_STRADDLE": "false", "AXISTEN_IF_EXT_512_CC_STRADDLE": "false",
                "AXISTEN_IF_EXT_512_RQ_STRADDLE": "true", "AXISTEN_IF_EXT_512_RC_STRADDLE": "true",
                "AXISTEN_IF_EXT_512_RC_4TLP_STRADDLE": "false"}
    assert not config.straddle
    return {"AXISTEN_IF_RC_STRADDLE": "false"} if config.data_width == 256 else {}


def _bar(number: int, size: int, *, wide: bool) -> dict[str, str]:
    """A BAR for memory; ``wide``: 64-bit and prefetchable."""
    scale, unit = ("Megabytes", 1 << 20) if size >= 1 << 20 else ("Kilobytes", 1 << 10)
    flag = str(wide).lower()
    return {f"pf0_bar{number}_{name}": value for name, value in {
        "enabled": "true", "type": "Memory", "64bit": flag, "prefetchable": flag, "scale": scale,
        "size": str(size // unit)}.items()}
