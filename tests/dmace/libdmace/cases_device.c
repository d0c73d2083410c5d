/* SPDX-License-Identifier: Apache-2.0
 *
 * cases_device.c: opening, registers, reset.
 */
#include "cases.h"

#include "dmace_card.h"

static void names(void)
{
    dmace_device *device;
    char name[300];
    REQUIRE_FAILS(dmace_open(NULL, &device), -EINVAL, "needs a name");
    REQUIRE_FAILS(dmace_open("gpu:0", &device), -EINVAL, "must begin with vfio: or sim:, not be gpu:0");
    REQUIRE_FAILS(dmace_open("sim:", &device), -EINVAL, "must be sim:LIBRARY");
    REQUIRE_FAILS(dmace_open("sim:/nowhere.so", &device), -ENOENT, "/nowhere.so");
    REQUIRE_FAILS(dmace_open("sim:libm.so.6", &device), -EINVAL, "exports no dmace_transport_open()");
    REQUIRE_FAILS(dmace_open("vfio:0000:01", &device), -EINVAL, "must be DDDD:BB:DD.F, not 0000:01");
    REQUIRE_FAILS(dmace_open("vfio:ffff:ff:1f.7", &device), -ENOENT, "There is no PCI function ffff:ff:1f.7");
    snprintf(name, sizeof name, "sim:%s,badid", fake_library);
    REQUIRE_FAILS(dmace_open(name, &device), -ENODEV, "ID of the DMA engine must be 0x444d4145, not 0xffffffff");
    snprintf(name, sizeof name, "sim:%s,badversion", fake_library);
    REQUIRE_FAILS(dmace_open(name, &device), -ENODEV, "Version of the DMA engine must be 1, not 2");
    snprintf(name, sizeof name, "sim:%s,refuse", fake_library);
    REQUIRE_FAILS(dmace_open(name, &device), -EBUSY, "The fake card refuses to open");
    snprintf(name, sizeof name, "sim:%s", fake_library);
    OK(dmace_open(name, &device));
    dmace_close(device);
    dmace_close(NULL);
}

static void sizes(void)
{
    dmace_info info;
    uint64_t cycles;
    dmace_device *device = open_fake("", NULL);
    OK(dmace_get_info(device, &info));
    REQUIRE(!strcmp(info.transport, "fake") && info.queues == FAKE_QUEUES && info.queue_depth == FAKE_DEPTH);
    REQUIRE(info.extended_queues == FAKE_EXTENDED && info.regions == FAKE_REGIONS && info.vectors == FAKE_VECTORS);
    REQUIRE(info.domains == 256 && info.beat_bytes == 8 && info.segment_bytes == 256 && info.max_copy == (1 << 28) - 1);
    OK(dmace_cycles(device, &cycles));
    REQUIRE_FAILS(dmace_get_info(device, NULL), -EINVAL, "needs a device");
    REQUIRE_FAILS(dmace_get_info(NULL, &info), -EINVAL, "needs a device");
    dmace_close(device);
}

/* A card may be a DMA engine alone, for instance of a board. */
static void engine_alone(void)
{
    dmace_info info;
    uint64_t request;
    bench made = open_bench("remote,noendpoint,noadapter", NULL);
    OK(dmace_get_info(made.device, &info));
    REQUIRE(info.queues == FAKE_QUEUES && !info.vectors);
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 100, 0, &request));
    OK(dmace_wait(made.queue, request, DMACE_FOREVER));
    close_bench(&made);
}

static void close_nothing(void *context)
{
    ++*(int *)context;
}

static void tables(void)
{
    int closed = 0;
    dmace_device *device;
    dmace_transport table = {.version = 99, .close = close_nothing};
    REQUIRE_FAILS(dmace_open_transport(&table, &closed, &device), -ENODEV, "must be 1, not 99");
    table.version = DMACE_TRANSPORT_VERSION;
    REQUIRE_FAILS(dmace_open_transport(&table, &closed, &device), -EINVAL, "read, write and store");
    REQUIRE(closed == 1);
    REQUIRE_FAILS(dmace_open_transport(NULL, NULL, &device), -EINVAL, "needs a transport");
}

/* Every call of the transport that fails ends dmace_open_transport() without a leak. */
static void open_failures(void)
{
    for (int calls = 0;; ++calls) {
        const dmace_transport *transport;
        void *context;
        dmace_device *device;
        char error[200];
        OK(dmace_transport_open("", &transport, &context, error, sizeof error));
        fake_fail_call(context, calls);
        const int code = dmace_open_transport(transport, context, &device);
        if (!code) {
            REQUIRE(calls > 8);
            dmace_close(device);
            break;
        }
        REQUIRE_FAILS(code, -EIO, "the test made this call fail");
        REQUIRE(!fake_open_cards());
    }
}

static void registers(void)
{
    uint32_t value;
    dmace_device *device = open_fake("", NULL);
    OK(dmace_read_register(device, DMACE_BAR0_PCIE + DMACE_PCIE_ID_OFFSET, &value));
    REQUIRE(value == DMACE_PCIE_ID_RESET);
    OK(dmace_write_register(device, DMACE_DMA_WATCHDOG_OFFSET, 1234));
    OK(dmace_read_register(device, DMACE_DMA_WATCHDOG_OFFSET, &value));
    REQUIRE(value == 1234);
    REQUIRE_FAILS(dmace_read_register(device, 2, &value), -EINVAL, "must be a multiple of 4 below 0x10000, not 0x2");
    REQUIRE_FAILS(dmace_write_register(device, 1 << 16, 0), -EINVAL, "not 0x10000");
    dmace_close(device);
}

static void *wait_forever(void *argument)
{
    bench *made = argument;
    REQUIRE(dmace_wait(made->queue, 1, DMACE_FOREVER) == -ECANCELED);
    return NULL;
}

static void reset(void)
{
    bench made = open_bench("", &(dmace_queue_options){.interrupt = 1});
    dmace_queue_handle *queue;
    uint64_t request;
    pthread_t thread;
    fake_stop(made.context, 1);
    OK(dmace_copy(made.queue, made.to, 0, made.from, 0, 64, 0, &request));
    pthread_create(&thread, NULL, wait_forever, &made);
    usleep(20000);
    OK(dmace_reset(made.device));
    pthread_join(thread, NULL);
    fake_stop(made.context, 0);
    REQUIRE_FAILS(dmace_wait(made.queue, request, 0), -ECANCELED, "has ended");
    REQUIRE_FAILS(dmace_copy(made.queue, made.to, 0, made.from, 0, 64, 0, NULL), -EINVAL, "has no region any more");
    REQUIRE_FAILS(dmace_post_word(made.queue, (dmace_word){0, 0}, NULL), -ECANCELED, "has ended");
    OK(dmace_queue_create(made.device, &(dmace_queue_options){.interrupt = 1}, &queue));
    dmace_memory *from, *to;
    OK(dmace_alloc(made.device, 4096, 0, DMACE_READ, &from));
    OK(dmace_alloc(made.device, 4096, 0, DMACE_WRITE, &to));
    OK(dmace_deregister(made.from));
    OK(dmace_deregister(made.to));
    OK(dmace_queue_destroy(made.queue));
    OK(dmace_copy(queue, to, 0, from, 0, 4096, DMACE_DMA_FLAG_IRQ, &request));
    OK(dmace_sleep(queue, request, DMACE_FOREVER));
    REQUIRE(fake_maps(made.context) == 3);
    close_bench(&made);
}

const test_case device_cases[] = {
    {"names", names}, {"sizes", sizes}, {"engine_alone", engine_alone}, {"tables", tables},
    {"open_failures", open_failures}, {"registers", registers}, {"reset", reset}, {NULL, NULL},
};
