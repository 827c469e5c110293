// SPDX-License-Identifier: Apache-2.0
/* What a C library does at the start of a statically linked program, and musl does not: the functions
 * that have clones for several instruction sets (row_clones.h) get the one for this processor. The
 * linker lists them between two symbols of its own, as relocations that say which function tells the
 * address and where it is to be stored: the x86-64 ABI's R_X86_64_IRELATIVE. */
#include <limits.h> /* or any header: it tells which C library this is */

#if defined(DEMI_STATIC) && defined(__x86_64__) && !defined(__GLIBC__)

#include <elf.h>
#include <stdint.h>
#include <string.h>

#define LINKERS __attribute__((visibility("hidden")))
extern const Elf64_Rela __rela_iplt_start[] LINKERS;
extern const Elf64_Rela __rela_iplt_end[] LINKERS;

/* Before all other code that may call such functions. */
__attribute__((constructor(101))) static void choose_clones(void) {
    for (const Elf64_Rela *at = __rela_iplt_start; at != __rela_iplt_end; at++) {
        const uintptr_t teller = (uintptr_t)at->r_addend;
        void *(*tell)(void);
        memcpy(&tell, &teller, sizeof tell);
        void *const chosen = tell();
        memcpy((void *)(uintptr_t)at->r_offset, &chosen, sizeof chosen);
    }
}

#endif
