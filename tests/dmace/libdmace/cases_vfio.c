/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_vfio.c: the transport vfio, with a test double of the kernel.
 */
#include "cases.h"

#include <linux/pci_regs.h>
#include <sys/mman.h>

#include "dmace_card.h"
#include "fake_vfio.h"

#define NAME "vfio:0000:ab:00.0"

static const char *const kinds[] = {"container", "iommufd"};

static void choose(int kind)
{
    fake_vfio_reset();
    setenv("DMACE_VFIO", kinds[kind], 1);
}

static void normal(void)
{
    for (int kind = 0; kind < 2; ++kind)
        for (int slow = 0; slow < 2; ++slow) {
            dmace_device *device;
            dmace_memory *memory, *second;
            dmace_queue_handle *queue;
            dmace_info info;
            uint64_t words[2];
            choose(kind);
            fake_vfio.no_mmap = slow;
            OK(dmace_open(NAME, &device));
            REQUIRE(fake_vfio.resets == 1 && (fake_vfio_file()[PCI_COMMAND] & 6) == 6);
            for (int i = 0; i < FAKE_VFIO_VECTORS; ++i)
                REQUIRE(fake_vfio.eventfds[i] == -1);
            OK(dmace_get_info(device, &info));
            REQUIRE(info.vectors == FAKE_VFIO_VECTORS && !strcmp(info.transport, "vfio"));
            OK(dmace_alloc(device, 5000, 0, DMACE_READ, &memory));
            OK(dmace_register(device, (char *)dmace_memory_data(memory) + 10, 4000, 0, DMACE_WRITE | DMACE_FLUSH, &second));
            REQUIRE(fake_vfio.map_count == 2 && fake_vfio.maps[0].length == 8192 && fake_vfio.maps[1].length == 4096);
            REQUIRE(fake_vfio.maps[0].address == (uintptr_t)dmace_memory_data(memory));
            REQUIRE(fake_vfio.maps[1].address == fake_vfio.maps[0].address);
            REQUIRE(fake_vfio.maps[0].flags == (kind ? 5 : 1) && fake_vfio.maps[1].flags == (kind ? 7 : 3));
            REQUIRE(!memcmp(fake_vfio_file() + FAKE_BAR0 + DMACE_DMA_REGION_BASE_LO_OFFSET, &fake_vfio.maps[1].io, 8));
            OK(dmace_queue_create(device, &(dmace_queue_options){.interrupt = 1}, &queue));
            const uint32_t number = dmace_queue_number(queue);
            REQUIRE(fake_vfio.eventfds[1 + number % 5] == dmace_queue_eventfd(queue));
            OK(dmace_copy(queue, second, 0, memory, 0, 100, 0, NULL));
            memcpy(words, fake_vfio_file() + FAKE_BAR2 + number * 4096, 16);
            REQUIRE((words[1] & DMACE_DMA_WORD_LENGTH_MASK) == 100 && (words[0] & 15) == DMACE_DMA_OP_COPY);
            OK(dmace_queue_destroy(queue));
            REQUIRE(fake_vfio.eventfds[1 + number % 5] == -1);
            OK(dmace_deregister(memory));
            REQUIRE(fake_vfio.map_count == 1);
            dmace_close(device);
            REQUIRE(!fake_vfio.map_count && fake_vfio.resets == 2 && (fake_vfio_file()[PCI_COMMAND] & 4) == 0);
            REQUIRE(!fake_vfio.open_files);
        }
}

/* No message about a mistake of the user leaves a file open. */
static void mistakes(void)
{
    dmace_device *device;
    for (int kind = 0; kind < 2; ++kind) {
#define MISTAKE(statement, code, text) \
        choose(kind); \
        statement; \
        REQUIRE_FAILS(dmace_open(NAME, &device), code, text); \
        REQUIRE(!fake_vfio.open_files)
        MISTAKE(fake_vfio.driver = NULL, -ENOENT, "must be bound to vfio-pci, not to no driver");
        MISTAKE(fake_vfio.driver = "nvme", -ENOENT, "echo 0000:ab:00.0 > driver/unbind");
        MISTAKE(fake_vfio.open_error = EBUSY, -EBUSY, "Another process has the function 0000:ab:00.0");
        MISTAKE(fake_vfio.open_error = EACCES, -EACCES, kind ? "Permission denied" : "may not open /dev/vfio/7");
        MISTAKE(fake_vfio.bar0_bytes = 4096, -ENODEV, "Size of BAR 0 must be at least 65536 bytes, not 4096");
        MISTAKE(fake_vfio.map_error = 0; memset(fake_vfio_file() + FAKE_BAR0, 0xff, 8192), -ENODEV, "not 0xffffffff");
        MISTAKE(setenv("DMACE_VFIO", "group", 1), -EINVAL, "must be container or iommufd, not group");
    }
#define kind 0
    MISTAKE(fake_vfio.viable = false, -EPERM, "IOMMU group 7 has functions with other drivers");
    MISTAKE(fake_vfio.has_group = false, -ENOENT, "has no IOMMU group");
#undef kind
    choose(0);
    unsetenv("DMACE_VFIO");
    fake_vfio.has_group = false;      /* so IOMMUFD is chosen */
    OK(dmace_open(NAME, &device));
    dmace_memory *memory;
    REQUIRE_FAILS(dmace_register_dmabuf(device, 0, 0, 4096, 0, DMACE_READ, &memory), -ENOTSUP, "DMACE_VFIO=container");
    dmace_close(device);
}

static void mappings(void)
{
    dmace_device *device;
    dmace_memory *memory, *memories[3];
    for (int kind = 0; kind < 2; ++kind) {
        choose(kind);
        fake_vfio.granted = 3;
        fake_vfio.ranges[0][0] = 0x20000;      /* 3 pages, and 2 pages */
        fake_vfio.ranges[0][1] = 0x22fff;
        fake_vfio.ranges[1][0] = 0x30000;
        fake_vfio.ranges[1][1] = 0x31fff;
        OK(dmace_open(NAME, &device));
        dmace_info info;
        OK(dmace_get_info(device, &info));
        REQUIRE(info.vectors == 3);
        OK(dmace_alloc(device, 8192, 0, DMACE_READ, &memories[0]));
        OK(dmace_alloc(device, 8192, 0, DMACE_READ, &memories[1]));
        OK(dmace_alloc(device, 4096, 0, DMACE_READ, &memories[2]));
        REQUIRE(fake_vfio.maps[0].io == 0x20000 && fake_vfio.maps[1].io == 0x30000 && fake_vfio.maps[2].io == 0x22000);
        REQUIRE_FAILS(dmace_alloc(device, 1, 0, DMACE_READ, &memory), -ENOSPC, "no free I/O addresses for 4096 bytes");
        OK(dmace_deregister(memories[0]));
        fake_vfio.map_error = ENOMEM;
        REQUIRE_FAILS(dmace_alloc(device, 1, 0, DMACE_READ, &memory), -ENOMEM, "");
        fake_vfio.map_error = EFAULT;
        REQUIRE_FAILS(dmace_alloc(device, 1, 0, DMACE_READ, &memory), -EFAULT, "4096 bytes at 0x");
        fake_vfio.map_error = 0;
        OK(dmace_alloc(device, 8192, 0, DMACE_READ, &memories[0]));
        dmace_close(device);
        REQUIRE(!fake_vfio.open_files && !fake_vfio.map_count);
    }
    choose(0);
    fake_vfio.old_kernel = true;
    OK(dmace_open(NAME, &device));
    OK(dmace_alloc(device, 1, 0, DMACE_READ, &memory));
    const int file = memfd_create("dmabuf", MFD_CLOEXEC);
    REQUIRE(!ftruncate(file, 16384));
    OK(dmace_register_dmabuf(device, file, 5000, 8000, 0, DMACE_READ, &memory));
    REQUIRE(dmace_memory_offset(memory) == 904 && fake_vfio.maps[1].length == 12288);
    OK(dmace_deregister(memory));
    OK(dmace_register_dmabuf(device, file, 0, 8192, 0, DMACE_READ, &memory));
    close(file);
    dmace_close(device);
}

const test_case vfio_cases[] = {
    {"vfio_normal", normal}, {"vfio_mistakes", mistakes}, {"vfio_mappings", mappings}, {NULL, NULL},
};
