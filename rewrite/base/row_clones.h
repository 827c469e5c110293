// SPDX-License-Identifier: Apache-2.0
/* Loops over elements as vectors of several instruction sets. No contraction and no reassociation is
 * allowed, so all give the same bits. */
#ifndef DEMI_BASE_ROW_CLONES_H
#define DEMI_BASE_ROW_CLONES_H

/* Before a loop whose arrays are apart. clang has such a pragma too, but then warns of each loop that
 * it does not vectorise. */
#if defined(__clang__)
#define ROW_LOOP
#else
#define ROW_LOOP _Pragma("GCC ivdep")
#endif

/* Before a function: it is compiled for several instruction sets, one of which is chosen at load time;
 * what it calls is inline. Not under sanitizers, whose start-up the choice would precede. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ROW_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ROW_CLONES
#endif

#endif
