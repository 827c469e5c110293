// SPDX-License-Identifier: Apache-2.0
/* Memory that was freed, back to the system. */
#ifndef DEMI_BASE_MEMORY_RETURN_H
#define DEMI_BASE_MEMORY_RETURN_H

/* The C library keeps what is freed for the next allocation, and keeps it apart for each thread that ever
 * allocated: what ended threads had is used by nobody. Worth calling after many contexts or threads came to
 * their end, before something large begins. Does nothing where the library has no such call. */
void memory_return(void);

/* The same where it comes to so much that a process would be seen to be larger for it: between steps of work on
 * one large model, which each take other sizes. Next to nothing for small ones. */
void memory_return_much(void);

#endif
