// SPDX-License-Identifier: Apache-2.0
/* The line on a terminal that says what a command is at and how much is left of it (work_progress.h): drawn by
 * a thread of its own, some times a second, so that work need not look at a clock.
 *
 * There is none where standard error is no terminal, with --quiet, and in a command's first second. It
 * is taken away when nothing is under way, and before anything else is printed.
 */
#ifndef DEMI_PROGRESS_LINE_H
#define DEMI_PROGRESS_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Begins, of a command that was started then (console_seconds); ends, and waits for the thread. */
void progress_line_start(double started);
void progress_line_end(void);

/* Takes the line away until it is drawn again. */
void progress_line_clear(void);
/* Text, which may end within a line, goes to standard error, or to standard output: where that is the
 * terminal, the line is gone for good. */
void progress_line_yield(bool to_output);

/* The same in a signal's handler, of a program that ends. */
void progress_line_leave(void);

#endif
