/* SPDX-License-Identifier: Apache-2.0
 *
 * refused: without an IOMMU the kernel does not hand out the card, and dmace_open() says so.
 */
#include "part.h"

int main(int argc, char **argv)
{
    dmace_device *device = NULL;
    const int result = dmace_open(part_device(argc, argv), &device);
    REQUIRE(result < 0);
    REQUIRE(strlen(dmace_error()) > 10);
    printf("refused: %s: %s\n", strerror(-result), dmace_error());
    return 0;
}
