// SPDX-License-Identifier: Apache-2.0
/* What the files of OutFile share: outfile.c (opening, writing), outfile_place.c (putting files in
 * place) and outfile_live.c (what has to go when a signal ends the process). */
#ifndef DEMI_BASE_OUTFILE_PARTS_H
#define DEMI_BASE_OUTFILE_PARTS_H

#include <inttypes.h>

#include "outfile.h"

/* ".demi-<16 hex digits>.part": no other name is ever cleaned up. */
#define OUTFILE_TEMP_FORMAT ".demi-%016" PRIx64 ".part"

/* Notes a name that outfile_end_by removes; flags: 0, or AT_REMOVEDIR for a folder. NULL where
 * there is no memory to note it. */
LiveTemp *live_add(int folder, const char *name, int flags);

/* Forgets it; NULL is fine. */
void live_remove(LiveTemp *live);

/* Between the two, signals that end the process wait. */
void live_hold_signals(void);
void live_let_signals(void);

/* ERR_ENV "WHAT: strerror", or OUTFILE_GONE, with the file's path. Returns false. */
bool outfile_error(const OutFile *file, Err *err, int error_number, const char *what);

#endif
