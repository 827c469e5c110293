// SPDX-License-Identifier: Apache-2.0
/* Loops over elements as vectors of several instruction sets. No contraction and no reassociation is
 * allowed, so all give the same bits. */
#ifndef DEMI_BASE_ROW_CLONES_H
#define DEMI_BASE_ROW_CLONES_H

#include <limits.h> /* or any header: it tells which C library this is */

/* Before a loop whose arrays are apart. clang has such a pragma too, but then warns of each loop that
 * it does not vectorise. */
#if defined(__clang__)
#define ROW_LOOP
#else
#define ROW_LOOP _Pragma("GCC ivdep")
#endif

/* Whether functions may have clones, of which one is chosen at load time (IFUNC): x86-64's, by gcc, where
 * the C library chooses: glibc does, musl does not, but static_start.c for the static command. Not under
 * sanitizers, whose start-up the choice would precede. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&                             \
    (defined(__GLIBC__) || defined(DEMI_STATIC))
#define ROW_HAS_CLONES 1
#else
#define ROW_HAS_CLONES 0
#endif

/* Before a function: it is compiled for several instruction sets; what it calls is inline. */
#if ROW_HAS_CLONES
#define ROW_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define ROW_CLONES
#endif

/* What a loop keeps in registers from one round to the next: 64 bytes, which instruction sets of shorter vectors have
 * in several. Compilers make no such thing of arrays by themselves where there are several of them. */
typedef float RowFloats __attribute__((vector_size(64)));
typedef double RowDoubles __attribute__((vector_size(64)));
enum { ROW_FLOATS = 16, ROW_DOUBLES = 8 };

/* The next loop, over such vectors, is unrolled: they are in registers then. */
#if defined(__clang__)
#define ROW_UNROLL _Pragma("unroll")
#else
#define ROW_UNROLL _Pragma("GCC unroll 8")
#endif

#endif
