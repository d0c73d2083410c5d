/* SPDX-License-Identifier: Apache-2.0
 *
 * An RDMA peer on soft-RoCE (rdma_rxe) that executes commands received as datagrams. Runs as /init.
 *
 * A command is "NUMBER WORD ARGUMENTS", its response "NUMBER ok RESULTS" or "NUMBER error SENTENCE"; the response to a
 * repeated number is repeated, and the command is not executed again. All numbers are hexadecimal.
 *
 *   open QPN PSN OWN_PSN MTU TIMEOUT RETRIES PATH
 *                                              a new queue pair to the peer's QPN; MTU 1 to 3 is 256 to 1024 bytes,
 *                                              TIMEOUT is 4.096 us * 2 ** TIMEOUT, PATH an index of "paths"
 *                                                                                    -> QPN R_KEY ADDRESS BYTES
 *   fill OFFSET BYTES SEED                     memory gets a pattern
 *   compare OFFSET BYTES SEED                  -> bytes that differ from it
 *   write OFFSET ADDRESS R_KEY BYTES           RDMA WRITE from memory; ends with its completion
 *   writei OFFSET ADDRESS R_KEY BYTES IMM      with immediate data
 *   read OFFSET ADDRESS R_KEY BYTES            RDMA READ to memory
 *   send OFFSET BYTES                          SEND
 *   receive COUNT                              posts receives, which WRITEs with immediate data consume
 *   completion                                 waits for a receive -> BYTES IMM
 *   wait OFFSET VALUE                          until the byte of memory has the value
 *   pingpong OFFSET ADDRESS R_KEY BYTES ROUNDS
 *                                              for round = 1, 2, ...: waits until the last byte is the round, and WRITEs
 *                                              the bytes to the peer
 *   perftest TOOL PORT BYTES ITERATIONS        runs one of "tools" to its end        -> exit status
 *   end                                        power off
 */
#include "addresses.h"
#include "boot.h"
#include "perftest.h"
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>

enum { PORT = 5000, MEMORY = 1 << 20, LINE = 256, WORDS = 8, RECEIVES = 64 };
static const double LIMIT = 60; /* seconds */

static unsigned char memory[MEMORY] __attribute__((aligned(4096)));
static struct ibv_context *context;
static struct ibv_pd *domain;
static struct ibv_mr *region;
static struct ibv_cq *sent, *received;
static struct ibv_qp *pair;
static int gids[PATHS];
static char response[LINE];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static unsigned char pattern(uint64_t seed, uint64_t index)
{
    return (unsigned char)((index + seed) * 0x9E3779B97F4A7C15u >> 56);
}

__attribute__((format(printf, 1, 2))) static int respond(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(response, sizeof response, format, arguments);
    va_end(arguments);
    return 0;
}

static void open_device(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    if (!devices || !devices[0] || !(context = ibv_open_device(devices[0])))
        fail("cannot open", "the RDMA device");
    for (int path = 0; path < PATHS; ++path)
        if ((gids[path] = find_gid(context, paths[path].own)) < 0)
            fail("no GID is the address", paths[path].own);
    domain = ibv_alloc_pd(context);
    region = domain ? ibv_reg_mr(domain, memory, sizeof memory,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) : NULL;
    sent = ibv_create_cq(context, RECEIVES, NULL, NULL, 0);
    received = ibv_create_cq(context, RECEIVES, NULL, NULL, 0);
    if (!region || !sent || !received)
        fail("cannot use", "the RDMA device");
}

static int open_pair(const uint64_t *given)
{
    struct ibv_qp_init_attr options = {.send_cq = sent, .recv_cq = received, .qp_type = IBV_QPT_RC,
                                       .cap = {16, RECEIVES, 1, 1, 0}};
    struct ibv_qp_attr state = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    struct ibv_wc discarded;
    if (given[6] >= PATHS)
        return respond("error there are %d paths", PATHS);
    if (pair && ibv_destroy_qp(pair))
        return respond("error the old queue pair cannot be destroyed");
    while (ibv_poll_cq(sent, 1, &discarded) > 0 || ibv_poll_cq(received, 1, &discarded) > 0)
        ;
    pair = ibv_create_qp(domain, &options);
    if (!pair || ibv_modify_qp(pair, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        return respond("error there is no queue pair: %s", strerror(errno));

    struct ibv_qp_attr ready = {.qp_state = IBV_QPS_RTR, .path_mtu = (enum ibv_mtu)given[3],
                                .dest_qp_num = (uint32_t)given[0], .rq_psn = (uint32_t)given[1],
                                .max_dest_rd_atomic = 4, .min_rnr_timer = 1};
    ready.ah_attr.is_global = 1;
    ready.ah_attr.port_num = 1;
    ready.ah_attr.grh.sgid_index = (uint8_t)gids[given[6]];
    ready.ah_attr.grh.hop_limit = 64;
    inet_pton(AF_INET6, paths[given[6]].peer, ready.ah_attr.grh.dgid.raw);
    const int fields = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
                       | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    /* The kernel waits one second for the peer's Ethernet address. */
    int status = ETIMEDOUT;
    for (int tries = 0; tries < 10 && status == ETIMEDOUT; ++tries)
        status = ibv_modify_qp(pair, &ready, fields);
    if (status)
        return respond("error the queue pair cannot receive: %s", strerror(status));

    struct ibv_qp_attr sends = {.qp_state = IBV_QPS_RTS, .timeout = (uint8_t)given[4], .retry_cnt = (uint8_t)given[5],
                                .rnr_retry = 7, .sq_psn = (uint32_t)given[2], .max_rd_atomic = 4};
    if (ibv_modify_qp(pair, &sends, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY
                                        | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
        return respond("error the queue pair cannot send: %s", strerror(errno));
    return respond("ok %x %x %llx %x", pair->qp_num, region->rkey, (unsigned long long)(uintptr_t)memory, MEMORY);
}

/* Waits for a completion; false after a response that says why there is none. */
static int complete(struct ibv_cq *queue, struct ibv_wc *done)
{
    const double end = seconds() + LIMIT;
    while (!ibv_poll_cq(queue, 1, done))
        if (seconds() > end) {
            respond("error no completion within %.0f seconds", LIMIT);
            return 0;
        }
    if (done->status != IBV_WC_SUCCESS)
        respond("error %s", ibv_wc_status_str(done->status));
    return done->status == IBV_WC_SUCCESS;
}

static int request(enum ibv_wr_opcode opcode, uint64_t offset, uint64_t address, uint64_t key, uint64_t length,
                   uint64_t imm)
{
    struct ibv_sge piece = {(uintptr_t)memory + offset, (uint32_t)length, region->lkey};
    struct ibv_send_wr work = {.sg_list = &piece, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
                               .imm_data = htonl((uint32_t)imm)}, *refused;
    struct ibv_wc done;
    work.wr.rdma.remote_addr = address;
    work.wr.rdma.rkey = (uint32_t)key;
    const int status = ibv_post_send(pair, &work, &refused);
    if (status)
        return respond("error the request cannot be posted: %s", strerror(status)), 0;
    return complete(sent, &done);
}

static int wait_for(uint64_t offset, uint64_t value)
{
    const double end = seconds() + LIMIT;
    volatile const unsigned char *byte = memory + offset;
    while (*byte != (unsigned char)value)
        if (seconds() > end)
            return respond("error the byte is %x after %.0f seconds", *byte, LIMIT), 0;
    return 1;
}

static int receive(uint64_t count)
{
    for (; count; --count) {
        struct ibv_recv_wr work = {.num_sge = 0}, *refused;
        if (ibv_post_recv(pair, &work, &refused))
            return respond("error a receive cannot be posted");
    }
    return respond("ok");
}

static int execute(const char *word, const uint64_t *given)
{
    const uint64_t offset = given[0], address = given[1], key = given[2], length = given[3];
    struct ibv_wc done;
    if (!strcmp(word, "open"))
        return open_pair(given);
    if (!strcmp(word, "receive"))
        return pair ? receive(given[0]) : respond("error there is no queue pair");
    if (!strcmp(word, "completion"))
        return complete(received, &done) ? respond("ok %x %x", done.byte_len, ntohl(done.imm_data)) : 0;
    if (!strcmp(word, "fill") || !strcmp(word, "compare")) {
        uint64_t wrong = 0;
        if (offset > MEMORY || given[1] > MEMORY - offset)
            return respond("error the memory has %x bytes", MEMORY);
        for (uint64_t index = 0; index < given[1]; ++index) {
            if (*word == 'f')
                memory[offset + index] = pattern(given[2], index);
            wrong += memory[offset + index] != pattern(given[2], index);
        }
        return respond("ok %llx", (unsigned long long)wrong);
    }
    if (!strcmp(word, "perftest")) {
        if (given[0] >= TOOLS)
            return respond("error there are %d tools", (int)TOOLS);
        return respond("ok %x", (unsigned)run_tool((unsigned)given[0], (unsigned)given[1], (unsigned)given[2],
                                                   (unsigned)given[3], gids[0]));
    }
    if (!strcmp(word, "wait"))
        return offset < MEMORY && wait_for(offset, given[1]) ? respond("ok") : 0;
    if (offset > MEMORY || length > MEMORY - offset)
        return respond("error the memory has %x bytes", MEMORY);
    if (!pair)
        return respond("error there is no queue pair");
    if (!strcmp(word, "send"))
        return given[1] <= MEMORY - offset && request(IBV_WR_SEND, offset, 0, 0, given[1], 0) ? respond("ok") : 0;
    if (!strcmp(word, "write"))
        return request(IBV_WR_RDMA_WRITE, offset, address, key, length, 0) ? respond("ok") : 0;
    if (!strcmp(word, "writei"))
        return request(IBV_WR_RDMA_WRITE_WITH_IMM, offset, address, key, length, given[4]) ? respond("ok") : 0;
    if (!strcmp(word, "read"))
        return request(IBV_WR_RDMA_READ, offset, address, key, length, 0) ? respond("ok") : 0;
    if (!strcmp(word, "pingpong") && length) {
        const double began = seconds();
        for (uint64_t round = 1; round <= given[4]; ++round)
            if (!wait_for(offset + length - 1, round) || !request(IBV_WR_RDMA_WRITE, offset, address, key, length, 0))
                return 0;
        return respond("ok %llx", (unsigned long long)((seconds() - began) * 1e6));
    }
    return respond("error there is no command %.40s", word);
}

int main(void)
{
    boot();
    configure_addresses();
    configure_interface(SERVER_INTERFACE, SERVER_OWN);
    add_rxe("rxe0", INTERFACE);
    open_device();
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = inet_addr(PEER)};
    struct timeval second = {1, 0};
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) || connect(fd, (struct sockaddr *)&peer, sizeof peer)
        || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second))
        fail("cannot use", "the control socket");
    printf("roce: ready, %.1f s since the kernel started\n", seconds());
    fflush(stdout);
    /* Datagrams without a number announce the guest until the first command arrives. */
    char last[LINE] = "hello";
    long latest = -1;
    for (;;) {
        char line[LINE], *rest = line, *word, *number;
        if (latest < 0 && send(fd, last, strlen(last), 0) < 0)
            usleep(100000);
        const ssize_t length = recv(fd, line, sizeof line - 1, 0);
        if (length <= 0)
            continue;
        line[length] = 0;
        if (!(number = strsep(&rest, " ")) || !(word = strsep(&rest, " ")))
            continue;
        const long sequence = strtol(number, NULL, 16);
        if (sequence != latest) {
            uint64_t given[WORDS] = {0};
            for (int count = 0; count < WORDS && rest; ++count)
                given[count] = strtoull(strsep(&rest, " "), NULL, 16);
            latest = sequence;
            if (!strcmp(word, "end")) {
                const int size = snprintf(last, sizeof last, "%lx ok", sequence);
                send(fd, last, (size_t)size, 0);
                usleep(100000);
                finish("pass");
            }
            respond("error the arguments are wrong");
            execute(word, given);
            snprintf(last, sizeof last, "%lx %.200s", sequence, response);
        }
        send(fd, last, strlen(last), 0);
    }
}
