/* SPDX-License-Identifier: Apache-2.0
 *
 * init: the guest's first and only service. It mounts what is needed, loads the kernel modules, gives the card to
 * vfio-pci, runs the parts named in `dmace.parts=` on the kernel's command line one after another, each as a process of
 * its own with the time limit `dmace.limit=` in seconds, and switches the machine off. `dmace.PART=` are the further
 * arguments of a part, separated by commas, and `dmace.vfio=` is the parts' DMACE_VFIO.
 *
 *     PART copies pass 12.3
 *     RESULT pass
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 4096, MOST_ARGUMENTS = 16 };

static char command_line[LINE];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void finish(const char *result)
{
    printf("RESULT %s\n", result);
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

static void fail(const char *what, const char *which)
{
    printf("init: %s %s: %s\n", what, which, strerror(errno));
    finish("fail");
}

static ssize_t read_file(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    return length;
}

static int write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0)
        close(fd);
    return length == (ssize_t)strlen(text) ? 0 : -1;
}

/* The value of `name=` on the kernel's command line; null without it. */
static char *option(const char *name, char *value, size_t size)
{
    const size_t length = strlen(name);
    for (const char *word = command_line; word; word = strchr(word, ' ')) {
        word += strspn(word, " \n");
        if (!strncmp(word, name, length) && word[length] == '=') {
            snprintf(value, size, "%.*s", (int)strcspn(word + length + 1, " \n"), word + length + 1);
            return value;
        }
    }
    return NULL;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void load_modules(void)
{
    struct dirent **found;
    const int count = scandir("/modules", &found, is_visible, alphasort);
    for (int index = 0; index < count; ++index) {
        char path[300];
        snprintf(path, sizeof path, "/modules/%s", found[index]->d_name);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
            fail("cannot load", path);
        close(fd);
    }
}

/* The PCI function with these IDs, as sysfs writes them; "" if there is none. */
static void find_function(const char *vendor, const char *device, char *function, size_t size)
{
    struct dirent **found;
    const int count = scandir("/sys/bus/pci/devices", &found, is_visible, alphasort);
    *function = 0;
    for (int index = 0; index < count; ++index) {
        char path[300], text[16];
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", found[index]->d_name);
        read_file(path, text, sizeof text);
        if (strncmp(text, vendor, strlen(vendor)))
            continue;
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/device", found[index]->d_name);
        read_file(path, text, sizeof text);
        if (!strncmp(text, device, strlen(device)))
            snprintf(function, size, "%.60s", found[index]->d_name);
    }
}

/* Gives a function to vfio-pci. */
static void bind(const char *function)
{
    char path[300], driver[300];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/driver_override", function);
    if (write_file(path, "vfio-pci"))
        fail("cannot write", path);
    if (write_file("/sys/bus/pci/drivers_probe", function))
        fail("cannot probe", function);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/driver", function);
    const ssize_t length = readlink(path, driver, sizeof driver - 1);
    driver[length > 0 ? length : 0] = 0;
    if (!strstr(driver, "vfio-pci"))
        printf("init: vfio-pci does not take %s, which has no IOMMU\n", function);
}

/* Waits for a part, at most until its limit is over, and kills it and what is left of its children. */
static int end_of(pid_t part, double limit)
{
    const double end = seconds() + limit;
    sigset_t child;
    int status;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        const pid_t ended = waitpid(part, &status, WNOHANG);
        if (!ended && seconds() > end)
            printf("init: the time limit of %.0f seconds is over\n", limit);
        if (ended || seconds() > end) {
            kill(-part, SIGKILL);
            while (waitpid(-part, NULL, 0) > 0)
                ;
            return ended ? status : -1;
        }
        sigtimedwait(&child, NULL, &(struct timespec){1, 0});
    }
}

static int run(const char *part, const char *card, const char *peer, double limit)
{
    char path[600], name[600], device[80], more[512];
    char *arguments[MOST_ARGUMENTS + 1] = {path, device};
    int count = 2;
    snprintf(path, sizeof path, "/parts/%s", part);
    snprintf(device, sizeof device, "vfio:%s", card);
    if (!strcmp(part, "p2p"))
        arguments[count++] = (char *)peer;
    snprintf(name, sizeof name, "dmace.%s", part);
    if (option(name, more, sizeof more))
        for (char *word = strtok(more, ","); word && count < MOST_ARGUMENTS; word = strtok(NULL, ","))
            arguments[count++] = word;
    printf("BEGIN %s\n", part);
    fflush(stdout);
    const double began = seconds();
    const pid_t child = fork();
    if (child < 0)
        fail("cannot start", part);
    if (!child) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setpgid(0, 0);
        execv(path, arguments);
        fprintf(stderr, "init: %s: %s\n", path, strerror(errno));
        _exit(127);
    }
    setpgid(child, child);
    const int status = end_of(child, limit);
    const int passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!passed && WIFSIGNALED(status))
        printf("init: %s was ended by signal %d\n", part, WTERMSIG(status));
    printf("PART %s %s %.1f\n", part, passed ? "pass" : "fail", seconds() - began);
    fflush(stdout);
    return passed ? 0 : -1;
}

int main(void)
{
    char parts[512] = "", number[32], card[64], peer[64], path[128], *rest = parts;
    int failed = 0;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    if (mount("proc", "/proc", "proc", 0, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL)
        || mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) || mount("tmpfs", "/tmp", "tmpfs", 0, NULL))
        fail("cannot mount", "proc, sysfs, devtmpfs or tmpfs");
    read_file("/proc/cmdline", command_line, sizeof command_line);
    const double limit = option("dmace.limit", number, sizeof number) ? atof(number) : 300;
    if (option("dmace.vfio", number, sizeof number))
        setenv("DMACE_VFIO", number, 1);
    load_modules();

    find_function("0x1234", "0xd3ac", card, sizeof card);
    if (!*card) {
        errno = ENODEV;
        fail("no PCI function has the IDs", "1234:d3ac");
    }
    bind(card);
    find_function("0x1af4", "0x1110", peer, sizeof peer);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/enable", peer);
    if (*peer && write_file(path, "1"))
        fail("cannot enable", peer);
    printf("init: card %s, peer %s, %.1f s since the kernel started\n", card, *peer ? peer : "none", seconds());

    option("dmace.parts", parts, sizeof parts);
    for (char *part; (part = strsep(&rest, ",")) && *part;)
        failed |= run(part, card, peer, limit);
    finish(failed ? "fail" : "pass");
}
