# SPDX-License-Identifier: Apache-2.0
"""Rules of one AXI4 burst: its address channel, and the byte lanes of its beats."""

from amaranth import *

from hw.axi.signature import Burst

__all__ = ["byte_lanes", "check_burst"]

_WRAP_LENGTHS = (1, 3, 7, 15)


def check_burst(m, checker, channel):
    """State the rules of a burst that ``channel``, "aw" or "ar", offers.

    Parameters
    ----------
    m : Module
    checker : AxiChecker
    channel : str
    """
    upper, kinds = channel.upper(), checker.bursts
    addr, length, size, burst, cache = (
        getattr(checker, channel + pin) for pin in ("addr", "len", "size", "burst", "cache"))
    widest = (checker.bus.data_width // 8).bit_length() - 1

    # The offset in its page of the first byte after the burst; beats after the first are aligned.
    end = Signal(16, name=f"{channel}_end")
    unaligned, exclusive_unaligned = (Signal(name=f"{channel}_{name}") for name in ("unaligned", "exclusive_unaligned"))
    with m.Switch(size):
        for exponent in range(widest + 1):
            with m.Case(exponent):
                m.d.comb += [
                    end.eq((addr[exponent:12] + length + 1) << exponent), unaligned.eq(addr[:exponent].any()),
                    exclusive_unaligned.eq((addr[:7] & (((length + 1) << exponent) - 1)[:7]).any()
                                           | (((length + 1) << exponent) > 128)),
                ]
    with m.If(getattr(checker, f"{channel}valid")):
        if kinds == "incr":
            checker.rule(m, "manager", "A3.4.1", burst == Burst.INCR,
                         f"{upper}BURST is {{}}, not INCR", burst.as_value())
        else:
            checker.rule(m, "manager", "A3.4.1", burst.as_value() != 3, f"{upper}BURST is reserved")
        checker.rule(m, "manager", "A3.4.1", size <= widest,
                     f"{upper}SIZE of {{}} is wider than the data bus", size)
        checker.rule(m, "manager", "A3.4.1", (end <= 4096) | (burst != Burst.INCR),
                     f"a burst crosses 4 KiB: {upper}ADDR={{:#x}} {upper}LEN={{}} {upper}SIZE={{}}",
                     addr, length, size)
        checker.rule(m, "manager", "A4.4", cache[1] | (cache[2:] == 0),
                     f"{upper}CACHE of {{:#x}} is reserved", cache)
        if kinds == "all":
            wrap = burst == Burst.WRAP
            checker.rule(m, "manager", "A3.4.1", ~wrap | Cat(length == one for one in _WRAP_LENGTHS).any(),
                         f"{upper}LEN is {{}} for a WRAP burst", length)
            checker.rule(m, "manager", "A3.4.1", ~wrap | ~unaligned,
                         f"a WRAP burst is not aligned: {upper}ADDR={{:#x}} {upper}SIZE={{}}", addr, size)
            checker.rule(m, "manager", "A3.4.1", (burst != Burst.FIXED) | (length <= 15),
                         f"{upper}LEN is {{}} for a FIXED burst", length)
        if checker.exclusive:
            lock = getattr(checker, f"{channel}lock")
            checker.rule(m, "manager", "A7.2.4", ~lock | Cat(length == one for one in (0, *_WRAP_LENGTHS)).any(),
                         f"{upper}LEN is {{}} for an exclusive access", length)
            checker.rule(m, "manager", "A7.2.4", ~lock | ~exclusive_unaligned,
                         f"an exclusive access is longer than 128 bytes, or not aligned to its size: "
                         f"{upper}ADDR={{:#x}}", addr)


def byte_lanes(m, address, beat, wide):
    """Byte lanes of a beat: from its address to the end of its aligned container (A3.4.3).

    Parameters
    ----------
    m : Module
    address : View
        ``addr`` (the low 7 bits), ``len``, ``size`` and ``burst`` of the burst.
    beat : Value
        Number of the beat, from 0.
    wide : int
        Bytes of the bus.

    Returns
    -------
    Value
        One bit for each byte.
    """
    first, end, step, total = Signal(7), Signal(8), Signal(9), Signal(range(16 * wide + 1))
    m.d.comb += step.eq(Mux(address.burst == Burst.FIXED, 0, beat))
    with m.Switch(address.size):
        for exponent in range(wide.bit_length()):
            with m.Case(exponent):
                container, wrapped = (Signal(7, name=f"{name}_{exponent}") for name in ("container", "wrapped"))
                m.d.comb += [
                    total.eq((address.len[:4] + 1) << exponent),
                    # A WRAP burst shorter than the bus returns to its lowest lane.
                    wrapped.eq(((((address.addr >> exponent) + step) << exponent) & (total - 1))
                               | (address.addr & ~(total - 1))),
                    container.eq(Mux((address.burst == Burst.WRAP) & (total < wide), wrapped,
                                     ((address.addr >> exponent) + step) << exponent) & (wide - 1)),
                    first.eq(Mux(step == 0, address.addr & (wide - 1), container)),
                    end.eq(container + (1 << exponent)),
                ]
    return Cat((lane >= first) & (lane < end) for lane in range(wide))
