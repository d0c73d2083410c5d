/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"
#include <errno.h>
int dmace_vfio_open(const char *function, const dmace_transport **transport, void **context)
{
    (void)function; (void)transport; (void)context;
    return dmace_fail(-ENOTSUP, "The transport vfio is not part of this build");
}
