// SPDX-License-Identifier: Apache-2.0
// Messages of the vfio-user protocol, version 0: all fields are little endian, as in memory of x86-64.
//
// Bodies are those of the ioctls of VFIO (linux/vfio.h); the layouts are QEMU's docs/interop/vfio-user.rst.
#pragma once

#include <cstdint>

enum class Command : uint16_t {
    kVersion = 1, kDmaMap = 2, kDmaUnmap = 3, kGetInfo = 4, kGetRegionInfo = 5, kGetRegionIoFds = 6, kGetIrqInfo = 7,
    kSetIrqs = 8, kRegionRead = 9, kRegionWrite = 10, kDmaRead = 11, kDmaWrite = 12, kReset = 13
};

struct Header {
    uint16_t id;
    uint16_t command;
    uint32_t size;  // with this header
    uint32_t flags;
    uint32_t error;
};

constexpr uint32_t kTypeMask = 0xF, kReply = 1, kNoReply = 1 << 4, kErrorFlag = 1 << 5;
constexpr uint32_t kMaxData = 1 << 20, kMaxMessage = kMaxData + 64, kMaxDescriptors = 16;

struct DmaMap {
    uint32_t argsz, flags;
    uint64_t offset, address, size;
};

struct DmaUnmap {
    uint32_t argsz, flags;
    uint64_t address, size;
};

constexpr uint32_t kUnmapDirty = 1, kUnmapAll = 2;

struct DeviceInfo {
    uint32_t argsz, flags, regions, interrupts;
};

constexpr uint32_t kInfoReset = 1, kInfoPci = 2;

struct RegionInfo {
    uint32_t argsz, flags, index, capabilities;
    uint64_t size, offset;
};

constexpr uint32_t kRegionReadable = 1, kRegionWritable = 2;

struct IrqInfo {
    uint32_t argsz, flags, index, count;
};

constexpr uint32_t kIrqEventfd = 1;

struct IrqSet {
    uint32_t argsz, flags, index, start, count;
};

constexpr uint32_t kDataNone = 1, kDataEventfd = 4, kActionTrigger = 1 << 5;

struct RegionAccess {
    uint64_t offset;
    uint32_t region, count;
};

// Numbers of vfio-pci.
constexpr uint32_t kBar0Region = 0, kBar2Region = 2, kConfigRegion = 7, kRegions = 9;
constexpr uint32_t kMsixInterrupt = 2, kInterrupts = 5;
