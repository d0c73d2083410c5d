# SPDX-License-Identifier: Apache-2.0
"""The Ethernet segment of a virtual machine, with a socket in place of QEMU; datagrams; the guest's pattern."""

import shutil
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from sim.rdma.connection import Station
from sim.rdma.packets import PacketError, decode
from sim.rdma.roce_guest import CommandFailed, RoceGuest, pattern
from sim.rdma.segment import Segment, SegmentClosed, datagram, payload_of

OWN, OTHER = Station(b"\2\0\0\0\0\1", bytes([10, 0, 0, 1])), Station(b"\2\0\0\0\0\2", bytes([10, 0, 0, 2]))


@pytest.fixture
def ends(tmp_path):
    """A segment, and a socket that is connected to it."""
    with Segment(tmp_path / "s", OWN) as segment, socket.socket(socket.AF_UNIX) as other:
        other.connect(str(tmp_path / "s"))
        segment.accept(1)
        other.settimeout(5)
        yield segment, other


def _framed(*frames):
    return b"".join(struct.pack(">I", len(frame)) + frame for frame in frames)


def test_frames_in_both_directions(ends):
    segment, other = ends
    frames = [OWN.mac + OTHER.mac + b"\x08\x00" + bytes([number]) * number for number in range(50)]
    data = _framed(*frames)
    for at in range(0, len(data), 97):      # in pieces
        other.sendall(data[at:at + 97])
    assert [segment.receive(1) for _ in frames] == frames and segment.receive(0) is None
    other.sendall(_framed(frames[1]) + _framed(frames[2])[:9])
    assert segment.receive(1) == frames[1] and segment.receive(0.01) is None
    other.sendall(_framed(frames[2])[9:])
    assert segment.receive(1) == frames[2]
    segment.send(frames[3])
    assert other.recv(1000) == _framed(frames[3])
    other.sendall(_framed(b"\2" * 6 + frames[0][6:], b"\xff" * 6 + frames[0][6:]))
    assert segment.receive(1) == b"\xff" * 6 + frames[0][6:]       # that of another station was skipped
    assert segment.counts == {"received": 53, "sent": 1}


def test_chosen_frames_are_dropped(ends):
    segment, other = ends
    seen = []
    segment.observe = lambda sent, frame: seen.append((sent, frame[14:]))
    segment.drop_received = lambda frame: frame.endswith(b"x")
    segment.drop_sent = lambda frame: frame.endswith(b"y")
    head = OWN.mac + OTHER.mac + b"\x08\x00"
    other.sendall(_framed(head + b"x", head + b"y"))
    assert segment.receive(1) == head + b"y" and segment.receive(0) is None
    for end in (b"x", b"y"):
        segment.send(head + end)
    assert other.recv(1000) == _framed(head + b"x")
    assert seen == [(False, b"x"), (False, b"y"), (True, b"x"), (True, b"y")]
    assert segment.counts == {"received": 1, "dropped_received": 1, "sent": 1, "dropped_sent": 1}


@pytest.mark.parametrize("vlan", [None, 7])
def test_arp(ends, vlan):
    scapy = pytest.importorskip("scapy.layers.l2")
    segment, other = ends

    def request(address, **fields):
        head = scapy.Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:02")
        tag = head if vlan is None else head / scapy.Dot1Q(vlan=vlan)
        return bytes(tag / scapy.ARP(hwsrc="02:00:00:00:00:02", psrc="10.0.0.2", pdst=address, **fields))

    other.sendall(_framed(request("10.0.0.3"), request("10.0.0.1", op=2), request("10.0.0.1")[:30],
                          request("10.0.0.1")))
    assert segment.receive(0.05) is None
    response = scapy.Ether(other.recv(1000)[4:])
    arp = response[scapy.ARP]
    assert (response.dst, arp.op, arp.hwsrc, arp.psrc, arp.hwdst, arp.pdst) == (
        "02:00:00:00:00:02", 2, "02:00:00:00:00:01", "10.0.0.1", "02:00:00:00:00:02", "10.0.0.2")
    assert segment.counts == {"replies": 1} and len(bytes(response)) == 60
    assert (response[scapy.Dot1Q].vlan if vlan else None) == vlan


@pytest.mark.parametrize("vlan", [None, 7])
def test_neighbour_discovery(tmp_path, vlan):
    scapy = pytest.importorskip("scapy.layers.inet6")
    from scapy.layers.l2 import Dot1Q, Ether

    own = bytes.fromhex("fd" + 14 * "00" + "01")

    def solicitation(target, source="fd00::2"):
        head = Ether(dst="33:33:ff:00:00:01", src="02:00:00:00:00:02")
        tag = head if vlan is None else head / Dot1Q(vlan=vlan)
        return bytes(tag / scapy.IPv6(src=source, dst="ff02::1:ff00:1", hlim=255) / scapy.ICMPv6ND_NS(tgt=target)
                     / scapy.ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:02"))

    with Segment(tmp_path / "s", OWN, [own]) as segment, socket.socket(socket.AF_UNIX) as other:
        other.connect(str(tmp_path / "s"))
        segment.accept(1)
        other.sendall(_framed(solicitation("fd00::3"), solicitation("fd00::1", "::"), solicitation("fd00::1")[:70],
                              solicitation("fd00::1")))
        assert segment.receive(0.05) is None
        response = Ether(other.recv(1000)[4:])
    said, ip = response[scapy.ICMPv6ND_NA], response[scapy.IPv6]
    assert (response.dst, ip.src, ip.dst, ip.hlim, said.tgt, said.S, said.O, said.R) == (
        "02:00:00:00:00:02", "fd00::1", "fd00::2", 255, "fd00::1", 1, 1, 0)
    assert response[scapy.ICMPv6NDOptDstLLAddr].lladdr == "02:00:00:00:00:01"
    right = said.cksum
    del said.cksum
    assert Ether(bytes(response))[scapy.ICMPv6ND_NA].cksum == right
    assert segment.counts == {"replies": 1} and (response[Dot1Q].vlan if vlan else None) == vlan


def test_the_other_end_is_missing_or_gone(tmp_path, ends):
    segment, other = ends
    other.sendall(_framed(b"cut"))
    other.close()
    with pytest.raises(SegmentClosed, match=r"^The other end has closed the segment\.$"):
        segment.receive(1)
    with pytest.raises(SegmentClosed, match=r"^The other end has closed the segment\.$"):
        for _ in range(100):
            segment.send(bytes(60))
    with Segment(tmp_path / "t", OWN) as lonely:
        for call in (lambda: lonely.send(bytes(60)), lambda: lonely.receive(0)):
            with pytest.raises(SegmentClosed, match=r"^Nothing is connected to the segment\.$"):
                call()
        with pytest.raises(SegmentClosed, match=r"^Nothing has connected to the segment within 0\.05 seconds\.$"):
            lonely.accept(0.05)


def test_an_impossible_length(ends):
    segment, other = ends
    other.sendall(b"\xff" * 8)
    with pytest.raises(SegmentClosed, match=r"^A frame of 4294967295 bytes is no Ethernet frame; the other "):
        segment.receive(1)


def test_datagrams():
    frame = datagram(OWN, OTHER, (7, 5000), b"hello")
    assert payload_of(frame, 5000) == b"hello" and payload_of(frame, 7) is None and payload_of(frame[:20], 5000) is None
    assert payload_of(frame.ljust(60, b"\0"), 5000) == b"hello"
    scapy = pytest.importorskip("scapy.layers.l2")
    from scapy.layers.inet import IP, UDP

    parsed = scapy.Ether(frame)
    assert (parsed[UDP].sport, parsed[UDP].dport, bytes(parsed[UDP].payload)) == (7, 5000, b"hello")
    right = parsed[IP].chksum
    del parsed[IP].chksum
    assert scapy.Ether(bytes(parsed))[IP].chksum == right
    with pytest.raises(PacketError, match=r"^The UDP destination port is 5000, not 4791\.$"):
        decode(frame.ljust(80, b"\0")) if len(frame) > 60 else decode(datagram(OWN, OTHER, (7, 5000), bytes(40)))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler on this machine")
def test_the_guest_has_the_same_pattern(tmp_path):
    text = (Path(__file__).parents[3] / "sim/rdma/guest/roce.c").read_text()
    start = text.index("static unsigned char pattern")
    (tmp_path / "x.c").write_text("#include <stdint.h>\n#include <stdio.h>\n" + text[start:text.index("}", start) + 1]
                                  + "int main(void)\n{\n    for (int i = 0; i < 50; ++i)\n"
                                    '        printf("%d ", pattern(1234567, i));\n}\n')
    subprocess.run(["cc", "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    printed = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    assert bytes(map(int, printed.split())) == pattern(1234567, 50)


def test_the_mtu_of_the_guest(tmp_path):
    guest = RoceGuest(tmp_path, None)
    with guest.segment, pytest.raises(CommandFailed, match=r"^The guest's path MTU must be 256, 512 or 1024, not 40"):
        guest.open(qpn=1, psn=0, guest_psn=0, mtu=4096)
