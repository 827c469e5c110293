// SPDX-License-Identifier: Apache-2.0
/* For tests of trials: models from text. */
#ifndef DEMI_TEST_SOURCE_H
#define DEMI_TEST_SOURCE_H

#include <string.h>

#include "demi_trials.h"

static inline DemiStatus open_text(void *text, DemiModel **model, DemiError *error) {
    return demi_load_memory(text, strlen(text), NULL, model, error);
}

static inline DemiSource source_of(const char *text) {
    DemiSource source = DEMI_SOURCE_INIT;
    source.open = open_text;
    source.open_user = (void *)(uintptr_t)text;
    return source;
}

#endif
