// SPDX-License-Identifier: Apache-2.0
/* Making the text of a pipeline from the rows of compile_passes.def. */
#include "compile_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a plan is made for; one of them. */
typedef enum Mode {
    FAST = 1 << 0,
    SMALL = 1 << 1,    /* fast, in as little memory as can be */
    DEVICE = 1 << 2,   /* fast, by the kernels of a device */
    FAITHFUL = 1 << 3, /* every result rounded as if nothing was fused */
    WATCHED = 1 << 4,  /* nothing fused, every value kept */
    FUSED = FAST | SMALL | DEVICE | FAITHFUL,
    ALL = FUSED | WATCHED,
} Mode;

typedef struct PassRow {
    const char *name;
    unsigned modes;
    const char *options;
} PassRow;

#define NUMERICS "numerics="
static const PassRow rows[] = {
#define PASS(name, modes, options) {name, modes, options},
#include "compile_passes.def"
};

enum {
    NUMBER = 20, /* digits of the budget */
    ROWS_TEXT = 0
#define PASS(name, modes, options) +sizeof name + sizeof options + sizeof "faithful{}"
#include "compile_passes.def"
};
_Static_assert(
    ROWS_TEXT + sizeof "lower-plan{numerics=faithful,fold=true,small=true,isa=portable,memory=}" +
            NUMBER <=
        COMPILE_TEXT,
    "whatever rows the mode has");

static const char *const isa_names[] = {[DEMI_ISA_NATIVE] = "native",
                                        [DEMI_ISA_NONE] = "none",
                                        [DEMI_ISA_PORTABLE] = "portable",
                                        [DEMI_ISA_AVX2] = "avx2",
                                        [DEMI_ISA_AVX512] = "avx512"};

static Mode mode_of(const DemiCompileOptions *options) {
    if (options->keep_values) return WATCHED;
    if (options->numerics == DEMI_NUMERICS_FAITHFUL) return FAITHFUL;
    if (options->for_device) return DEVICE;
    return options->small ? SMALL : FAST;
}

static const char *numerics_of(Mode mode) {
    return mode & (FAITHFUL | WATCHED) ? "faithful" : "fast";
}

/* "name{options}," behind `text`. */
static void put_row(const PassRow *row, Mode mode, char *text) {
    const bool numerics = strcmp(row->options, NUMERICS) == 0;
    strcat(text, row->name);
    if (row->options[0]) {
        strcat(strcat(text, "{"), row->options);
        strcat(strcat(text, numerics ? numerics_of(mode) : ""), "}");
    }
    strcat(text, ",");
}

void compile_text(const DemiCompileOptions *options, char text[COMPILE_TEXT]) {
    const Mode mode = mode_of(options);
    const uint64_t memory = options->memory_budget < INT64_MAX ? options->memory_budget : INT64_MAX;
    /* what is watched is to be as the model has it */
    const char *isa =
        options->keep_values || options->for_device ? "none" : isa_names[options->isa];
    text[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].modes & mode) put_row(&rows[i], mode, text + strlen(text));
    const size_t length = strlen(text);
    snprintf(text + length, COMPILE_TEXT - length,
             "lower-plan{numerics=%s%s%s,isa=%s,memory=%" PRIu64 "}", numerics_of(mode),
             mode & FUSED ? ",fold=true" : "", mode & (SMALL | DEVICE) ? ",small=true" : "", isa,
             memory);
}
