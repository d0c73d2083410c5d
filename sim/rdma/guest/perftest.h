/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of the package perftest as clients of a server at the host's loopback, to which QEMU forwards 10.0.2.2. */
#ifndef PERFTEST_H
#define PERFTEST_H

#include "boot.h"
#include <signal.h>
#include <sys/wait.h>

static const char SERVER[] = "10.0.2.2", SERVER_INTERFACE[] = "eth1", SERVER_OWN[] = "10.0.2.15";
static const char *const tools[] = {"/usr/bin/ib_write_bw", "/usr/bin/ib_write_lat", "/usr/bin/ib_read_bw",
                                    "/usr/bin/ib_read_lat"};
enum { TOOLS = sizeof tools / sizeof *tools, TOOL_LIMIT = 100 /* seconds */ };

/* Runs a tool to its end; returns its exit status, or -1 if it did not exit by itself. */
static int run_tool(unsigned tool, unsigned port, unsigned size, unsigned iterations, int gid)
{
    char texts[4][16];
    snprintf(texts[0], sizeof texts[0], "%u", port);
    snprintf(texts[1], sizeof texts[1], "%u", size);
    snprintf(texts[2], sizeof texts[2], "%u", iterations);
    snprintf(texts[3], sizeof texts[3], "%d", gid);
    const pid_t child = fork();
    if (!child) {
        execl(tools[tool], tools[tool], "-F", "-d", "rxe0", "-u", "17", "-p", texts[0], "-s", texts[1], "-n", texts[2],
              "-x", texts[3], SERVER, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    for (int tenths = 0; child > 0 && tenths < 10 * TOOL_LIMIT; ++tenths, usleep(100000))
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return -1;
}

#endif
