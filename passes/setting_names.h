// SPDX-License-Identifier: Apache-2.0
/* The words of settings, for tables that rows of policy.def are part of: options of passes and of
 * the command. */
#ifndef DEMI_SETTING_NAMES_H
#define DEMI_SETTING_NAMES_H

/* As PassOption has them, by demi.h's constants: [0] is "auto" of BASE, "none" of others; an option
 * that has no such choice takes them from [1] on. */
#define CHOICE_NAMES(id) setting_names_##id
extern const char *const CHOICE_NAMES(BASE)[];
#define CHOICE_SETTING(id, ...) extern const char *const CHOICE_NAMES(id)[];
#define VALUE_SETTING(...)
#define LIST_SETTING(...)
#include "policy.def"

/* All words that the option takes as OptionRow has them, and its argument: "a|b|c". */
#define CHOICE_WORDS(id)                                                                           \
    CHOICES_##id(CHOICE_WORD, CHOICE_SPACED_WORD) CHOICES_##id(CHOICE_ALSO, CHOICE_ALSO)
#define CHOICE_ARG(id)                                      CHOICES_##id(CHOICE_WORD, CHOICE_BARRED_WORD)
#define CHOICE_WORD(constant, word, also, says, ...)        word
#define CHOICE_SPACED_WORD(constant, word, also, says, ...) " " word
#define CHOICE_BARRED_WORD(constant, word, also, says, ...) "|" word
#define CHOICE_ALSO(constant, word, also, says, ...)        also

/* How many choices there are: what heeds a setting asserts how many it knows. */
#define CHOICE_COUNT(id)                            (0 CHOICES_##id(CHOICE_ONE, CHOICE_ONE))
#define CHOICE_ONE(constant, word, also, says, ...) +1

#endif
