/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's first process: mounts, kernel modules, an Ethernet interface with an address, an rxe device on it. */
#ifndef BOOT_H
#define BOOT_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void finish(const char *result)
{
    printf("RESULT %s\n", result);
    fflush(stdout);
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

static void fail(const char *what, const char *which)
{
    printf("roce: %s %s: %s\n", what, which, strerror(errno));
    finish("fail");
}

static int is_module(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void boot(void)
{
    struct dirent **found;
    if (mount("proc", "/proc", "proc", 0, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL)
        || mount("devtmpfs", "/dev", "devtmpfs", 0, NULL))
        fail("cannot mount", "proc, sysfs or devtmpfs");
    const int count = scandir("/modules", &found, is_module, alphasort);
    for (int index = 0; index < count; ++index) {
        char path[300];
        snprintf(path, sizeof path, "/modules/%s", found[index]->d_name);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
            fail("cannot load", path);
        close(fd);
    }
}

/* Sets the interface's IPv4 address, with a mask of 24 bits, and its state to up. */
static void configure_interface(const char *name, const char *address)
{
    struct ifreq request;
    memset(&request, 0, sizeof request);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    struct sockaddr_in *value = (struct sockaddr_in *)&request.ifr_addr;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    value->sin_family = AF_INET;
    value->sin_addr.s_addr = inet_addr(address);
    if (fd < 0 || ioctl(fd, SIOCSIFADDR, &request))
        fail("cannot set the address of", name);
    value->sin_addr.s_addr = inet_addr("255.255.255.0");
    if (ioctl(fd, SIOCSIFNETMASK, &request))
        fail("cannot set the mask of", name);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &request))
        fail("cannot start", name);
    close(fd);
}

/* As "rdma link add NAME type rxe netdev INTERFACE". */
static void add_rxe(const char *name, const char *interface)
{
    struct nl_sock *link = nl_socket_alloc();
    if (!link || nl_connect(link, NETLINK_RDMA))
        fail("cannot use netlink for", name);
    struct nl_msg *message = nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK),
                                                NLM_F_REQUEST | NLM_F_ACK);
    if (!message || nla_put_string(message, RDMA_NLDEV_ATTR_DEV_NAME, name)
        || nla_put_string(message, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe")
        || nla_put_string(message, RDMA_NLDEV_ATTR_NDEV_NAME, interface) || nl_send_sync(link, message) < 0)
        fail("cannot add", name);
    nl_socket_free(link);
}

#endif
