// SPDX-License-Identifier: Apache-2.0
/* The part of demi.h that tells which passes there are: reads the table, touches no model. */
#include <stdio.h>
#include <string.h>

#include "demi.h"
#include "passes.h"

size_t demi_pass_count(void) {
    return demi_passes.count;
}

const char *demi_pass_name(size_t i) {
    return i < demi_passes.count ? demi_passes.passes[i]->name : NULL;
}

const char *demi_pass_summary(size_t i) {
    return i < demi_passes.count ? demi_passes.passes[i]->summary : NULL;
}

static void takes_text(const PassOption *row, char *buffer, size_t size) {
    const char *fixed = "";
    switch (row->kind) {
    case OPTION_BOOL: fixed = "true|false"; break;
    case OPTION_INT: fixed = "N"; break;
    case OPTION_STRING: fixed = "TEXT"; break;
    case OPTION_STRINGS: fixed = "[TEXT,...]"; break;
    case OPTION_CHOICE: break;
    }
    size_t length = (size_t)snprintf(buffer, size, "%s", fixed);
    if (row->kind != OPTION_CHOICE) return;
    for (const char *const *choice = row->choices; *choice && length < size; choice++)
        length +=
            (size_t)snprintf(buffer + length, size - length, "%s%s", length ? "|" : "", *choice);
}

bool demi_pass_option(size_t i, size_t j, DemiPassOption *option) {
    if (i >= demi_passes.count || !demi_passes.passes[i]->options) return false;
    const PassOption *row = demi_passes.passes[i]->options;
    for (; row->name && j; j--) row++;
    if (!row->name) return false;
    DemiPassOption filled = {
        .size = option->size, .name = row->name, .otherwise = row->otherwise, .help = row->help};
    takes_text(row, filled.takes, sizeof filled.takes);
    memcpy(option, &filled, option->size < sizeof filled ? option->size : sizeof filled);
    return true;
}
