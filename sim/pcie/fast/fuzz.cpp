// SPDX-License-Identifier: Apache-2.0
// The fuzzer of TLPs; see fuzz_main.h.

#include "fuzz.h"
#include "fuzz_main.h"

int main(int count, char** words) { return FuzzMain<PcieFuzz, StepMaker>().main(count, words); }
