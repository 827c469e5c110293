// SPDX-License-Identifier: Apache-2.0
/* Ctrl-C as a request to come to an end: while it is held back, it waits to be asked for. */
#ifndef DEMI_INTERRUPT_H
#define DEMI_INTERRUPT_H

#include <stdbool.h>

/* From here on SIGINT waits; false where the caller ignores it, or it was held back before. */
bool interrupt_hold(void);
/* Did it come? It stays so until interrupt_release. */
bool interrupt_came(void);
/* Forgets one that came, and lets others end the program again. */
void interrupt_release(void);

#endif
