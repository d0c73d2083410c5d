# SPDX-License-Identifier: Apache-2.0
"""The RoCEv2 unit's driver over a bus that keeps what was written."""

from dataclasses import replace

import pytest

from dmace.drivers.rdma import Connection, FailedQueuePair, RdmaDriver, mac_number
from dmace.drivers.registers import wait
from hw.rdma.config import TINY
from hw.rdma.fault import Fault

PEER = Connection(qpn=0x12_3403, peer_qpn=0xAB_CDEF, peer_mac="02:00:0a:0b:0c:0d", peer_ip="10.1.2.3")


class Bus:
    """Registers as words; ``log`` has the writes in order."""

    def __init__(self):
        self.words, self.log = {}, []

    async def read(self, offset):
        return self.words.get(offset, 0)

    async def write(self, offset, value):
        self.words[offset] = value
        self.log.append((offset, value))


@pytest.fixture
def driver():
    made = RdmaDriver(Bus(), TINY)
    for name in ("ID", "VERSION", "SIZES", "TIMER"):
        made.bus.words[made.map[name].offset] = made.map[name].reset
    return made


def _pair(driver, name):
    low, high = (driver.bus.words[driver.map[f"{name}_{half}"].offset] for half in ("LO", "HI"))
    return low | high << 32


def _fields(driver, name):
    return driver.map[name].unpack(driver.bus.words[driver.map[name].offset])


def test_identity(driver):
    wait(driver.check_identity())
    with pytest.raises(RuntimeError, match="sizes"):
        wait(RdmaDriver(driver.bus, replace(TINY, queue_pairs=16)).check_identity())


def test_open(driver):
    qp = wait(driver.open(replace(PEER, mtu=1024, max_reads=4, vlan=0x6123, ring=(0x1234_5670, 64), selective=True,
                                  remote_read=False, domain=9, send_psn=77, receive_psn=88)))
    assert qp == 3
    assert _fields(driver, "QP_NUMBER") == {"qpn": 0x12_3403} and _fields(driver, "QP_PEER") == {"peer_qpn": 0xAB_CDEF}
    assert _fields(driver, "QP_SEND_PSN") == {"send_psn": 77}
    assert _fields(driver, "QP_RECEIVE_PSN") == {"receive_psn": 88}
    assert _fields(driver, "QP_ACCESS") == {"domain": 9, "remote_write": 1, "remote_read": 0}
    assert _fields(driver, "QP_VLAN") == {"vlan_tag": 0x6123, "ipv6": 0, "vlan": 1}
    assert _fields(driver, "QP_OPTIONS") == {"mtu": 2, "timeout": 14, "retries": 7, "rnr_retries": 7, "rnr_timer": 12,
                                             "max_reads": 3, "selective": 1, "congestion": 1}
    assert _fields(driver, "QP_ROUTE") == {"udp_port": 0xC000, "traffic_class": 2, "hop_limit": 64}
    assert _fields(driver, "QP_RING") == {"ring_bits": 6, "ring": 1} and _pair(driver, "QP_RING_BASE") == 0x1234_5670
    assert _pair(driver, "QP_PEER_MAC") == 0x0200_0A0B_0C0D
    words = [driver.bus.words[driver.map[f"QP_PEER_IP_{part}"].offset] for part in range(4)]
    assert words == [0x0A01_0203, 0xFFFF, 0, 0]
    assert driver.bus.log[-1] == (driver.map["QP_COMMIT"].offset, driver.map["QP_COMMIT"].pack(qp=3, open=1))


def test_open_with_ipv6(driver):
    wait(driver.open(replace(PEER, peer_ip="2001:db8::5")))
    words = [driver.bus.words[driver.map[f"QP_PEER_IP_{part}"].offset] for part in range(4)]
    assert words == [5, 0, 0, 0x2001_0DB8] and _fields(driver, "QP_VLAN")["ipv6"] == 1


def test_a_busy_queue_pair_is_not_opened(driver):
    for name, fields in (("QP_STATE", {"open": 1}), ("QP_STATE", {"busy": 1}), ("QP_OUTSTANDING", {"packets": 1})):
        driver.bus.words[driver.map[name].offset] = driver.map[name].pack(**fields)
        with pytest.raises(ValueError, match=r"^Queue pair 3 is not idle, so it cannot be opened$"):
            wait(driver.open(PEER))
        driver.bus.words[driver.map[name].offset] = 0
    assert driver.map["QP_COMMIT"].offset not in driver.bus.words


def test_state_and_faults(driver):
    for name, fields in (("QP_STATE", {"open": 1, "failed": 1, "fault": Fault.RETRIES}), ("QP_OLDEST", {"psn": 5}),
                         ("QP_NEXT", {"psn": 9}), ("QP_EXPECTED", {"psn": 11}), ("QP_RATE", {"rate": 64}),
                         ("FAULT", {"valid": 1, "qp": 2, "code": Fault.LOCAL_ACCESS})):
        driver.bus.words[driver.map[name].offset] = driver.map[name].pack(**fields)
    state = wait(driver.state(2))
    assert (state.open, state.fault, state.oldest, state.next, state.expected, state.rate) == (
        True, Fault.RETRIES, 5, 9, 11, 0.25)
    assert wait(driver.take_fault()) == FailedQueuePair(2, Fault.LOCAL_ACCESS)
    driver.bus.words[driver.map["FAULT"].offset] = 0
    assert wait(driver.take_fault()) is None


def test_memory(driver):
    assert wait(driver.define_region(5, va=0x7000_0000_0010, length=(1 << 48) - 1, address=64, key=0xA5)) == 0x5A5
    assert _pair(driver, "REGION_VA") == 0x7000_0000_0010 and _pair(driver, "REGION_LENGTH") == (1 << 48) - 1
    wait(driver.define_remote(7, qp=6, rkey=0xDEAD_BEEF, va=1 << 63, length=10))
    assert _fields(driver, "REMOTE_ACCESS") == {"qp": 6, "valid": 1} and _pair(driver, "REMOTE_VA") == 1 << 63


@pytest.mark.parametrize("change, sentence", [
    ({"qpn": 1 << 24}, r"qpn must be an integer from 0 to 16777215, not 16777216"),
    ({"send_psn": -1}, r"send_psn must be an integer from 0 to 16777215, not -1"),
    ({"timeout": 32}, r"timeout must be an integer from 0 to 31, not 32"),
    ({"max_reads": 0}, r"max_reads must be an integer from 1 to 16, not 0"),
    ({"mtu": 1500}, r"The MTU must be 256, 512, 1024, 2048 or 4096, not 1500"),
    ({"vlan": 1 << 16}, r"A VLAN tag must be an integer from 0 to 65535, not 65536"),
    ({"ring": (8, 16)}, r"The ring's base must be a multiple of 16, not 8"),
    ({"ring": (16, 3)}, r"A ring must have a power of two of records, not 3"),
    ({"peer_mac": "2:0"}, r"An Ethernet address has six pairs of hexadecimal digits with colons between, not '2:0'"),
    ({"peer_ip": "10.0.0"}, r"'10.0.0' does not appear to be an IPv4 or IPv6 address"),
])
def test_connections_that_cannot_be(change, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        replace(PEER, **change)


def test_what_the_unit_does_not_have(driver):
    with pytest.raises(ValueError, match=r"^The MTU of this unit is at most 1024, not 4096$"):
        wait(driver.open(replace(PEER, mtu=4096)))
    with pytest.raises(ValueError, match=r"^This unit has no selective repeat\.$"):
        wait(RdmaDriver(driver.bus, replace(TINY, selective=False)).open(replace(PEER, selective=True)))
    for call, sentence in (
            (driver.define_region(16, va=0, length=1, address=0), r"A region must be an integer from 0 to 15, not 16"),
            (driver.define_region(1, va=0, length=1, address=0, key=256), r"A key must be .* from 0 to 255, not 256"),
            (driver.define_region(1, va=(1 << 64) - 1, length=2, address=0), r"A span must end below 2 \*\* 64, .*"),
            (driver.define_remote(1, qp=8, rkey=0, va=0, length=1), r"A queue pair must be .* from 0 to 7, not 8"),
            (driver.define_remote(1, qp=1, rkey=1 << 32, va=0, length=1), r"An R_Key must be .*, not 4294967296"),
            (driver.define_remote(1, qp=1, rkey=1, va=0, length=1 << 48), r"A length must be .*, not 281474976710656"),
            (driver.close(8), r"A queue pair must be an integer from 0 to 7, not 8")):
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            wait(call)


def test_mac():
    assert mac_number("02:00:00:00:00:FF") == 0x0200_0000_00FF
    for wrong in ("", "0x:00:00:00:00:00", "02-00-00-00-00-01", "2:0:0:0:0:1", "02:00:00:00:00:001"):
        with pytest.raises(ValueError, match="An Ethernet address has six pairs"):
            mac_number(wrong)
