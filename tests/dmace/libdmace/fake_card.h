/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_card.h: a test double of a card, behind dmace_transport_open(), and what tests do to it.
 */
#ifndef FAKE_CARD_H
#define FAKE_CARD_H

#include <stdint.h>

#include "dmace_transport.h"

/* Sizes: 8 queues of 8 words, 4 of them extended, 16 regions, 4 vectors, max. burst 256 bytes.
 *
 * The argument of dmace_transport_open() is any of these words:
 *     remote    memory of the card's side instead of mapped memory
 *     page      doorbell pages are memory, which the card polls
 *     wrap      counts of queues begin at 2^32 - 5 after the first reset
 *     badid, badversion, refuse    the card is another one, or cannot be opened
 *     noendpoint, noadapter    the card has no endpoint, no PCIe adapter
 *     zero      I/O addresses begin at 0
 *     slow      a request takes some 100 us
 *     late      doorbells overtake writes of registers, which happen at the next read
 */
enum { FAKE_QUEUES = 8, FAKE_DEPTH = 8, FAKE_EXTENDED = 4, FAKE_REGIONS = 16, FAKE_VECTORS = 4 };

void fake_refuse(void *context, uint64_t io_address, uint64_t length);   /* accesses are refused, until the next call */
void fake_stop(void *context, int stop);          /* executes nothing meanwhile */
void fake_busy(void *context, int reads);         /* QUIESCE is busy for this number of reads, or always if negative */
void fake_mute(void *context, int mute);          /* completion words are not written */
void fake_time_out(void *context, uint32_t queue);
void fake_fail_call(void *context, int calls);    /* the call after this number of them fails with -EIO; -1: none */
unsigned fake_maps(void *context);                /* spans that are mapped or allocated */
unsigned fake_open_cards(void);

#endif
