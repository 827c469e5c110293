// SPDX-License-Identifier: Apache-2.0
/* The subcommands of demi run inside a test program, again and again: a thousand a second instead
 * of a hundred. What they print is dropped. */
#ifndef DEMI_HOSTILE_COMMANDS_H
#define DEMI_HOSTILE_COMMANDS_H

#include <stddef.h>

#include "err.h"

enum { HOSTILE_WORDS = 16 };

/* Sends standard output and error to /dev/null; messages of the program itself go to the stream it
 * returns. Call once, first. */
void hostile_commands_begin(void);

/* A file of these bytes without a name in any folder, under a path for commands; the last one of
 * the same slot (0 or 1) is gone. */
const char *hostile_commands_file(unsigned slot, const void *bytes, size_t size);

/* Runs `line`, words that are separated by single blanks, '%0' and '%1' being the slots' files.
 * What demi would exit with; *err is what it would print. */
int hostile_command(const char *line, Err *err);

/* The same by the program `demi`, as a user runs it; -1 where a signal ended it. */
int hostile_program(const char *demi, const char *line);

/* printf to where standard output was. */
void hostile_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
