# SPDX-License-Identifier: Apache-2.0
"""The transport's side of the bench for the requester, and the peers."""

from dataclasses import dataclass, field

from hw.rdma.protocol import Opcode

__all__ = ["Stored", "TransportSide"]

_HAS_RETH = (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.READ_REQUEST)


@dataclass
class Stored:
    """A posted packet.

    ``pending``: sends that were not accepted yet. ``copies``: complete packets seen on the line. ``returned``: whether
    all beats of a READ's response were accepted; None before the first.
    """

    index: int
    qp: int
    read: bool
    length: int
    cost: int
    pending: int = 0
    copies: int = 0
    header: dict = field(default_factory=dict)
    payload: bytes = field(default=b"", repr=False)
    settled: bool = False
    returned: bool | None = None


class TransportSide:
    """Packets of a RequesterBench: posted, sent, executed by the peer, retired."""

    def _post(self, item):
        fields = self.sinks["posted"].fields
        packet = Stored(*(fields.unpack(item, name) for name in ("index", "qp", "read", "length", "cost")))
        assert packet.index not in self.posted, f"entry {packet.index} is in use"
        assert packet.cost <= self.config.mtu_beats + 2 and (packet.read or not packet.length)
        self.posted[packet.index] = packet
        self.order[packet.qp].append(packet)
        self.times["posted"].append(self.cycle - 1)
        self.kinds.append(packet.read)
        if self.automatic and packet.qp not in self.failed:
            self.send(packet)

    def send(self, packet):
        packet.pending += 1
        psn, ackreq = self.rng.getrandbits(24), self.rng.getrandbits(1)
        self.sources["send"].put({"index": packet.index, "psn": psn, "ackreq": ackreq}, ("send", packet, psn, ackreq))

    def _work(self):
        """Retire oldest packets that were sent, or that belong to a failed queue pair."""
        sends = self.sources["send"]
        for qp, order in self.order.items():
            if not order:
                continue
            packet = order[0]
            if qp not in self.failed and not packet.copies:
                continue
            # A packet may retire as soon as all its sends were offered.
            waits = packet.pending == 1 and sends.offered and sends.queue[0][1][1] is packet
            if packet.pending and not waits:
                continue
            if not packet.settled and qp not in self.failed:
                if self.chance(self.resends):
                    self.send(packet)
                    self.seen["sent again"] += 1
                    continue
                if self.chance(self.fails):
                    self.failed.add(qp)
            packet.settled = True
            if packet.read and qp not in self.failed and packet.returned is None:
                self.give(packet)
            if packet.returned is not False:
                self.retire(packet, failed=qp in self.failed and not packet.returned)
                self.seen["retired while offered"] += waits

    def retire(self, packet, *, failed=False):
        assert self.order[packet.qp].popleft() is packet
        self.sources["retire"].put({"index": packet.index, "failed": failed}, ("retire", packet))
        if not packet.read and not failed:
            self._execute(packet)
        elif not failed:
            assert packet.qp not in self.messages, "a READ within a message"
        self.seen[f"failed {'READ' if packet.read else 'write'}"] += failed

    def _execute(self, packet):
        qp, header, size = packet.qp, packet.header, len(packet.payload)
        opcode = header["opcode"]
        if opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_ONLY):
            assert qp not in self.messages, "a message starts within another"
            self.messages[qp] = [self._remote(header), header["va"], header["dma_length"]]
        message = self.messages[qp]
        remote, va, left = message
        if opcode in (Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE):
            assert size == self.mtu[qp] and not self.selective[qp] and left > size
        if opcode in (Opcode.WRITE_LAST, Opcode.WRITE_ONLY):
            assert size == left
            del self.messages[qp]
        assert remote.qp == qp and 0 < size <= self.mtu[qp]
        message[1:] = va + size, left - size
        remote.memory.write(va - remote.va, packet.payload)
        burst = self._burst(self.writes, remote, va - remote.va, size)
        burst.done += 1
        self.seen[Opcode(opcode).name] += 1

    def _remote(self, header):
        return next(remote for remote in self.remotes.values() if remote.rkey == header["rkey"])

    def _burst(self, bursts, remote, offset, size):
        return next(burst for burst in bursts.values() if burst.remote is remote and (offset, size) in burst.cuts)

    def give(self, packet):
        """The response to a READ."""
        header = packet.header
        remote = self._remote(header)
        offset, size = header["va"] - remote.va, header["dma_length"]
        assert offset >= 0 and offset + size <= remote.length and size == packet.length <= self.mtu[remote.qp]
        content, beat = remote.memory.read(offset, size), self.config.beat_bytes
        for at in range(0, size, beat):
            piece, last = content[at:at + beat], at + beat >= size
            piece += self.rng.randbytes(beat - len(piece))
            self.sources["returned"].put(
                {"index": packet.index, "data": int.from_bytes(piece, "little"), "first": at == 0, "last": last},
                ("returned", packet, last))
        packet.returned = False

    def _emit(self, item):
        fields = self.sinks["packets"].fields
        first, last = fields.unpack(item, "first"), fields.unpack(item, "last")
        assert first == (self._packet is None)
        if first:
            header = {name: fields.unpack(item, f"header.{name}") for name in (
                "qp", "opcode", "ackreq", "psn", "va", "rkey", "dma_length", "length", "lane")}
            self._packet = header, bytearray()
            self.times["packets"].append(self.cycle - 1)
        header, content = self._packet
        content += fields.unpack(item, "data").to_bytes(self.config.beat_bytes, "little")
        self.times["packet beats"].append(self.cycle - 1)
        if not last:
            return
        self._packet = None
        packet, psn, ackreq = self.sends.popleft()
        assert (header["psn"], header["ackreq"], header["qp"]) == (psn, ackreq, packet.qp)
        beats = max(1, -(-(header["lane"] + header["length"]) // self.config.beat_bytes))
        assert len(content) == beats * self.config.beat_bytes
        payload = bytes(content[header["lane"]:][:header["length"]])
        if packet.read:
            assert (header["opcode"], header["length"], header["lane"]) == (Opcode.READ_REQUEST, 0, 0)
        reth = ("va", "rkey", "dma_length") if header["opcode"] in _HAS_RETH else ()
        seen = {name: header[name] for name in ("opcode", "length", *reth)}
        assert not packet.copies or (packet.header, packet.payload) == (seen, payload), "copies differ"
        packet.header, packet.payload = seen, payload
        packet.copies += 1
        assert packet.cost == (2 if packet.read else beats + 2)

    def _accepted(self, what):
        match what:
            case ("send", packet, psn, ackreq):
                self.sends.append((packet, psn, ackreq))
                packet.pending -= 1
            case ("returned", packet, True):
                packet.returned = True
            case ("retire", packet):
                del self.posted[packet.index]
