// SPDX-License-Identifier: Apache-2.0
/* Names that have to go when a signal ends the process, which runs none of its cleanup. The table
 * is what a handler can read: slots are claimed and freed by one atomic word each, blocks of slots
 * are added and never taken away. These are the only mutable globals of the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "outfile_parts.h"

enum { BLOCK_SLOTS = 32 };

typedef enum LiveState { LIVE_FREE, LIVE_CLAIMED, LIVE_SET } LiveState;

struct LiveTemp {
    atomic_int state; /* the other fields are valid while it is LIVE_SET */
    int folder, flags;
    char name[NAME_MAX + 1];
};

typedef struct LiveBlock LiveBlock;
struct LiveBlock {
    LiveTemp slots[BLOCK_SLOTS];
    _Atomic(LiveBlock *) next;
};

static LiveBlock live_first;

/* Commits that are putting files in place; ENDING once the process ends. */
enum { ENDING = -1 };
static atomic_int live_placing;
static atomic_int live_held; /* the signal that came meanwhile, or 0 */

static LiveTemp *claim_in(LiveBlock *block) {
    for (int i = 0; i < BLOCK_SLOTS; i++) {
        int expected = LIVE_FREE;
        if (atomic_compare_exchange_strong(&block->slots[i].state, &expected, LIVE_CLAIMED))
            return &block->slots[i];
    }
    return NULL;
}

/* The block after this one, made where there is none; NULL without memory. */
static LiveBlock *block_after(LiveBlock *block) {
    LiveBlock *next = atomic_load(&block->next);
    if (next) return next;
    LiveBlock *made = calloc(1, sizeof *made);
    if (!made || atomic_compare_exchange_strong(&block->next, &next, made)) return made;
    free(made); /* another thread was quicker */
    return next;
}

LiveTemp *live_add(int folder, const char *name, int flags) {
    LiveTemp *live = NULL;
    for (LiveBlock *block = &live_first; block && !live; block = block_after(block))
        live = claim_in(block);
    if (!live) return NULL;
    live->folder = folder;
    live->flags = flags;
    snprintf(live->name, sizeof live->name, "%s", name);
    atomic_store(&live->state, LIVE_SET);
    return live;
}

void live_remove(LiveTemp *live) {
    if (live) atomic_store(&live->state, LIVE_FREE);
}

static void remove_kind(int flags) {
    for (LiveBlock *block = &live_first; block; block = atomic_load(&block->next))
        for (int i = 0; i < BLOCK_SLOTS; i++) {
            LiveTemp *live = &block->slots[i];
            if (atomic_load(&live->state) == LIVE_SET && live->flags == flags)
                unlinkat(live->folder, live->name, flags);
        }
}

void outfile_remove_all(void) {
    int saved = errno;
    remove_kind(0);
    remove_kind(AT_REMOVEDIR); /* a folder in another one first has to be seen twice */
    remove_kind(AT_REMOVEDIR);
    errno = saved;
}

bool outfile_end_by(int number) {
    for (;;) {
        int idle = 0;
        if (atomic_compare_exchange_strong(&live_placing, &idle, ENDING) || idle == ENDING) {
            outfile_remove_all();
            return true;
        }
        atomic_store(&live_held, number);
        if (atomic_load(&live_placing) > 0) return false;
        /* They were in place before the signal was noted: then it may have been missed. */
        number = atomic_exchange(&live_held, 0);
        if (!number) return false;
    }
}

void live_hold_signals(void) {
    for (int placing = atomic_load(&live_placing);;) {
        if (placing == ENDING) pause(); /* another thread is in the handler that ends the process */
        if (placing == ENDING)
            placing = atomic_load(&live_placing);
        else if (atomic_compare_exchange_weak(&live_placing, &placing, placing + 1))
            return;
    }
}

void live_let_signals(void) {
    atomic_fetch_sub(&live_placing, 1);
    int number = atomic_exchange(&live_held, 0);
    if (number) raise(number);
}
