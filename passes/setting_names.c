// SPDX-License-Identifier: Apache-2.0
/* Words of settings; see setting_names.h. They are in the order of demi.h's constants, which
 * gen_settings.py sees to. */
#include "setting_names.h"

#include <stddef.h>

#define NAME(constant, word, also, says, ...) word,
#define NAMES(id, unsaid)                                                                          \
    const char *const CHOICE_NAMES(id)[] = {unsaid, CHOICES_##id(NAME, NAME) NULL};

NAMES(BASE, "auto")
#define CHOICE_SETTING(id, ...) NAMES(id, "none")
#define VALUE_SETTING(...)
#define LIST_SETTING(...)
#include "policy.def"
