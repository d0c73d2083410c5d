/* SPDX-License-Identifier: Apache-2.0
 *
 * cases.c: runs one case of the unit tests of libdmace: cases FAKE_LIBRARY NAME.
 */
#include "cases.h"

const char *fake_library;

int main(int count, char **arguments)
{
    const test_case *all[] = {device_cases, memory_cases, queue_cases, failure_cases, vfio_cases};
    fake_library = count == 3 ? arguments[1] : "";
    for (size_t group = 0; group < sizeof all / sizeof *all; ++group)
        for (const test_case *one = all[group]; one->name; ++one) {
            if (count == 1)
                puts(one->name);
            if (count == 3 && !strcmp(one->name, arguments[2])) {
                one->run();
                return 0;
            }
        }
    return count == 1 ? 0 : 2;
}
