// SPDX-License-Identifier: Apache-2.0
/* A file in which a search notes what it measured, so that a search that was ended, however, goes on
 * where it was and finds what it would have found.
 *
 * A line is a JSON object. The first one holds what the search is of: fields that must be the same for
 * what follows to hold. Others are entries: a key, which says what was measured, and numbers. A line is
 * written at once and on disk before the search goes on; one that was cut short, at the end of the
 * file, never happened. A journal belongs to one process at a time. */
#ifndef DEMI_JOURNAL_H
#define DEMI_JOURNAL_H

#include "arena.h"
#include "err.h"

typedef struct Journal Journal;

/* What the search is of; texts that are written and compared as they are. */
typedef struct JournalField {
    const char *name, *text;
} JournalField;

/* Opens the file, or makes it, and reads what it has. In `arena`, with which it is closed. ERR_USAGE
 * where the file is none, another process has it, or a field is another, which the error names; ERR_ENV
 * where it can't be read or written. */
Journal *journal_open(const char *path, const JournalField *fields, size_t count, Arena *arena,
                      Err *err);

/* The numbers that were noted by that key, `count` of them; NULL where there are none. */
const double *journal_find(const Journal *journal, const char *key, size_t count);

/* Notes them, bit for bit but for a NaN's payload. ERR_ENV where it can't be written. */
bool journal_add(Journal *journal, const char *key, const double *numbers, size_t count, Err *err);

#endif
