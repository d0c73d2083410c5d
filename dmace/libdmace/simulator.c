/* SPDX-License-Identifier: Apache-2.0
 *
 * simulator.c: a transport from a shared library, "LIBRARY[,OPTION]".
 */
#include "internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int dmace_simulator_open(const char *name, const dmace_transport **transport, void **context, void **library)
{
    const char *comma = strchr(name, ',');
    char *path = comma ? strndup(name, (size_t)(comma - name)) : strdup(name);
    if (!path)
        return dmace_fail(-ENOMEM, "No memory for a name");
    if (!*path) {
        free(path);
        return dmace_fail(-EINVAL, "Name of a simulator must be sim:LIBRARY or sim:LIBRARY,OPTION, not sim:%s", name);
    }
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    free(path);
    if (!loaded)
        return dmace_fail(-ENOENT, "The simulator cannot be loaded: %s", dlerror());
    dmace_transport_open_function *open = NULL;
    *(void **)&open = dlsym(loaded, "dmace_transport_open");
    if (!open) {
        dmace_fail(-EINVAL, "The library %s is no simulator: it exports no dmace_transport_open()", name);
        dlclose(loaded);
        return -EINVAL;
    }
    char error[512] = "";
    const int code = open(comma ? comma + 1 : "", transport, context, error, sizeof error);
    if (code) {
        error[sizeof error - 1] = 0;
        dmace_fail(code, "Starting the simulator: %s", *error ? error : strerror(-code));
        dlclose(loaded);
        return code;
    }
    if ((*transport)->version != DMACE_TRANSPORT_VERSION) {
        dmace_fail(-ENODEV, "Version of the simulator's transport must be %u, not %u", DMACE_TRANSPORT_VERSION,
                   (*transport)->version);
        dlclose(loaded);
        return -ENODEV;
    }
    *library = loaded;
    return 0;
}
