// SPDX-License-Identifier: Apache-2.0
/* convert --calibrate, --verify and --max-error: what runs decide about a conversion, and what it
 * is reported to be off by. */
#ifndef DEMI_CONVERT_VERIFY_H
#define DEMI_CONVERT_VERIFY_H

#include "trial.h"

/* What was found; all zero where nothing was asked for. */
typedef struct Verified {
    size_t calibrated; /* sets of inputs that ranges were measured on */
    size_t ranges;     /* values that were measured */
    size_t sets;       /* of inputs that it was verified on; 0: it was not */
    size_t trials;     /* conversions that were run */
    bool bounded;      /* --max-error: */
    double most;       /* what it may be off by */
    size_t kept;       /* nodes that stay float for it */
    TrialResult result;
} Verified;

/* Options of convert. */
// clang-format off
#define VERIFY_OPTIONS                                                                             \
    {"calibrate", 0, OPTION_ROW_VALUE, "DIR", NULL,                                                \
     "Run the model on the inputs in DIR (input_N.pb by position, there or in folders "            \
     "test_data_set_N) and keep in float what comes near the end of the new type's range."},       \
    {"verify", 0, OPTION_ROW_VALUE, "DIR|random", NULL,                                            \
     "Run the model and the converted one on the inputs in DIR, or on random ones, and report "    \
     "how far each output is off. demi's runtime rounds every 16-bit result once, as a device "    \
     "would that accumulates in float."},                                                          \
    {"max-error", 'e', OPTION_ROW_VALUE, "X", NULL,                                                \
     "With --verify: keep in float what it takes for no output to be off by more than X of its "   \
     "largest magnitude. The nodes are found by trial, some 30 to 60 runs; exit 1, and nothing "   \
     "written, where no choice is enough."},                                                       \
    {"random", 'r', OPTION_ROW_VALUE, "SEED", NULL,                                                \
     "Other random inputs for --verify random; default 0."},                                       \
    {"shape", 's', OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,                                      \
     "Sizes of an input that the model leaves open, for --verify random. May be repeated."},       \
    OPTION_DIM,                                                                                    \
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,                                                  \
     "Threads to run with; default: as many as there are processors to use."},                     \
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                                  \
     "Most memory that values and workspace of runs may take, as 500M or 2G; default: three "      \
     "quarters of the machine's."},                                                                \
    {"calibration-data", 0, OPTION_ROW_ALIAS, "calibrate", NULL, "Model-Optimizer"}
// clang-format on

/* Runs what the options ask for and adds ranges and kept nodes to *options. `path` is the
 * model's. */
bool verify_run(Program *program, const Parsed *parsed, const char *path,
                DemiConvertOptions *options, Verified *verified, Err *err);

/* Lines for people; nothing where nothing was asked for. */
void verify_print(const Verified *verified, FILE *out);
/* Members "calibration" and "verification" of an open object. */
void verify_json(const Verified *verified, JsonWriter *json);

#endif
