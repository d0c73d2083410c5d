/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c: the sentence of each thread's latest failure.
 */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[1024];

const char *dmace_error(void)
{
    return sentence;
}

int dmace_fail(int code, const char *format, ...)
{
    char text[sizeof sentence];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(sentence, text, sizeof text);       /* arguments may point into the old sentence */
    return code;
}

int dmace_fail_transport(const dmace_device *device, int code, const char *doing)
{
    const dmace_transport *transport = device->transport;
    const char *found = transport->error ? transport->error(device->context) : NULL;
    if (!found || !*found)
        found = strerror(-code);
    return dmace_fail(code, "%s: %s", doing, found);
}
