// SPDX-License-Identifier: Apache-2.0
/* Regular expressions that match in linear time, whatever the pattern: Thompson's simulation of the
 * automaton, without backtracking. Patterns and texts are UTF-8; a byte that is not is a character
 * of its own.
 *
 *   c          that character       .           any character
 *   [a-z_] [^/] one of, none of     \d \w \s    digit, ASCII letter or digit or _, space;
 *                                               \D \W \S the others
 *   \c         c itself; \t \n \v \f \r control characters
 *   ^ \A       begin of the text    $ \z        its end
 *   \b         begin or end of a word           \B          neither
 *   ( ) (?: )  group                |           either
 *   * + ? {m} {m,} {m,n}   repetition; a '?' behind one changes nothing, as matches are whole
 */
#ifndef DEMI_BASE_REGEX_MATCH_H
#define DEMI_BASE_REGEX_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "err.h"
#include "run_end.h"

typedef struct Regex Regex;

/* Compiles a pattern. NULL with ERR_USAGE (what, and the position as operand) where it is
 * malformed, nested over 100 deep, or longer than 20,000 steps once its repetitions are written
 * out. */
Regex *regex_compile(Arena *arena, const char *pattern, Err *err);

/* True where the whole text matches. Memory for the states is the Regex's own: one call at a
 * time. */
bool regex_matches(Regex *regex, const char *text, size_t length);
/* The same in the thread of a run, which it leaves where that ends (run_end.h). */
bool regex_matches_until(Regex *regex, const char *text, size_t length, RunEnd *end);

#endif
