// SPDX-License-Identifier: Apache-2.0
/* Work in parts on several threads, for the little that converting does besides reading and writing. */
#ifndef DEMI_BASE_PARALLEL_H
#define DEMI_BASE_PARALLEL_H

enum { PARALLEL_MOST = 4 };

/* How many parts are worth making: the processors this process may use, at most PARALLEL_MOST. */
unsigned parallel_parts(void);

/* Calls work(data, part) for each part below `parts` (at most PARALLEL_MOST) and returns when all have:
 * part 0 in the calling thread, the others in threads of their own or, where none can be made, in the
 * caller. The work must not allocate from an arena, as that may jump. */
void parallel_run(void (*work)(void *data, unsigned part), void *data, unsigned parts);

#endif
