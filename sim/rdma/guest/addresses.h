/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's interfaces, and the addresses of both ends on them. The VLAN's IPv4 network is that of eth0: soft-RoCE looks
 * its routes up by interface. */
#ifndef ADDRESSES_H
#define ADDRESSES_H

#include "boot.h"
#include <infiniband/verbs.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <stdint.h>

enum { VLAN = 7, PATHS = 4 };
static const char INTERFACE[] = "eth0", VLAN_INTERFACE[] = "eth0.7";
static const char OWN[] = "10.0.0.2", PEER[] = "10.0.0.1", VLAN_OWN[] = "10.0.0.3";
static const char OWN6[] = "fd00::2", VLAN_OWN6[] = "fd00::3";

/* GIDs of both ends: IPv4, IPv6, IPv4 in the VLAN, IPv6 in the VLAN. */
static const struct {
    const char *own, *peer;
} paths[PATHS] = {{"::ffff:10.0.0.2", "::ffff:10.0.0.1"},
                  {"fd00::2", "fd00::1"},
                  {"::ffff:10.0.0.3", "::ffff:10.0.0.1"},
                  {"fd00::3", "fd00::1"}};

/* Without duplicate address detection, an address is there at once. */
static void disable_detection(const char *interface)
{
    char path[100];
    snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/accept_dad", interface);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        fail("cannot write", path);
    close(fd);
}

static void add_ipv6(const char *interface, const char *address)
{
    struct {
        struct in6_addr address;
        uint32_t prefix;
        int interface;
    } request = {.prefix = 64, .interface = (int)if_nametoindex(interface)};
    const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || inet_pton(AF_INET6, address, &request.address) != 1 || ioctl(fd, SIOCSIFADDR, &request))
        fail("cannot set the IPv6 address of", interface);
    close(fd);
}

static void add_vlan(void)
{
    struct vlan_ioctl_args request = {.cmd = SET_VLAN_NAME_TYPE_CMD, .u.name_type = VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFVLAN, &request))
        fail("cannot name", VLAN_INTERFACE);
    request = (struct vlan_ioctl_args){.cmd = ADD_VLAN_CMD, .u.VID = VLAN};
    snprintf(request.device1, sizeof request.device1, "%s", INTERFACE);
    if (ioctl(fd, SIOCSIFVLAN, &request))
        fail("cannot add", VLAN_INTERFACE);
    close(fd);
}

static void configure_addresses(void)
{
    disable_detection("all");
    disable_detection("default");
    disable_detection(INTERFACE);
    configure_interface(INTERFACE, OWN);
    add_ipv6(INTERFACE, OWN6);
    add_vlan();
    configure_interface(VLAN_INTERFACE, VLAN_OWN);
    add_ipv6(VLAN_INTERFACE, VLAN_OWN6);
}

/* Index of the GID that is an address, or -1. It appears some time after the device. */
static int find_gid(struct ibv_context *context, const char *address)
{
    unsigned char wanted[16];
    union ibv_gid gid;
    inet_pton(AF_INET6, address, wanted);
    for (int tries = 0; tries < 200; ++tries, usleep(50000))
        for (int index = 0; index < 16 && !ibv_query_gid(context, 1, index, &gid); ++index)
            if (!memcmp(gid.raw, wanted, sizeof wanted))
                return index;
    return -1;
}

#endif
