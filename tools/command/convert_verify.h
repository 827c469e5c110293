// SPDX-License-Identifier: Apache-2.0
/* convert --calibrate, --verify and --max-error: what runs decide about a conversion, and what it
 * is reported to be off by. */
#ifndef DEMI_CONVERT_VERIFY_H
#define DEMI_CONVERT_VERIFY_H

#include <stdio.h>

#include "console.h"
#include "json_write.h"
#include "run_options.h"

/* What was found; all zero where nothing was asked for. */
typedef struct Verified {
    size_t calibrated;  /* sets of inputs that ranges were measured on */
    size_t ranges;      /* values that were measured */
    size_t sets;        /* of random inputs */
    const char *method; /* how ends were found; NULL where magnitudes were */
    bool random;        /* it was verified on these */
    bool bounded;       /* --max-error: */
    double most;        /* what it may be off by */
    const char *uncut;  /* a large file that was run at once (demi_trials_uncut_file), or NULL */
    uint64_t uncut_bytes;
    DemiVerdict *verdict; /* NULL: it was not verified. The caller frees it, after what it
                             gave to the options was used */
} Verified;

/* Options of convert. */
// clang-format off
#define VERIFY_OPTIONS                                                                             \
    {"calibrate", 0, OPTION_ROW_VALUE, "DIR|random", NULL,                                         \
     "Run the model on these sets of inputs, or on random ones, and keep in float what comes near " \
     "the end of a 16-bit type's range; with --to int8, quantize values by what they reach. Sets " \
     "are an .npz, a folder of NAME.npy or of ONNX's input_N.pb, or a folder of such. A file of "    \
     "more than 8 MiB is read and run in parts where the model leaves the first axis open."},       \
    {"calibration", 0, OPTION_ROW_VALUE, "minmax|percentile|mse|best",                             \
     "minmax percentile mse best",                                                                 \
     "How --calibrate finds the ends of quantized values: the least and greatest number, those "   \
     "that 99.999 % lie between, or those that leave the least squared error, in which what is "   \
     "cut off counts ten times (mse). Biases make up for what rounding adds on average. best "     \
     "(default): each is tried, with such biases and without, and what is the closest to the "     \
     "model is taken; the others take half the time or less. All leave out what makes no "         \
     "difference to a function, as below -3 to a HardSwish; best also tries whole ranges, and "    \
     "takes them where they are closer by 1 dB."},                                                 \
    {"verify", 0, OPTION_ROW_VALUE, "DIR|random", NULL,                                            \
     "Run the model and the converted one on such sets, or on random ones, and report how far "    \
     "each output is off. demi's runtime rounds every 16-bit result once, as a device would that " \
     "accumulates in float. Where an output has NaN or Inf that the source has not, the exit code "\
     "is 1, the node where it begins is named, and OUT is not written."},                          \
    {"sets", 0, OPTION_ROW_VALUE, "N", NULL,                                                       \
     "How many sets --verify random makes, of different values and open sizes; default 4."},       \
    {"max-error", 'e', OPTION_ROW_VALUE, "X", NULL,                                                \
     "With --verify: keep in float what it takes for no output to be off by more than X of its "   \
     "largest magnitude. The nodes are found by trial, some 30 to 60 runs; exit 1, and nothing "   \
     "written, where no choice is enough. Ctrl-C ends the search with the best so far."},          \
    {"random", 'r', OPTION_ROW_VALUE, "SEED", NULL,                                                \
     "Other random inputs for --verify random; default 0."},                                       \
    {"shape", 's', OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,                                      \
     "Sizes of an input that the model leaves open, for --verify random. May be repeated."},       \
    OPTION_DIM,                                                                                    \
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,                                                  \
     "Threads to run with; default: as many as there are processors to use."},                     \
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                                  \
     "Most memory for values, workspace, kept input sets and calibration histograms together, as "  \
     "500M or 2G; default: three quarters of the machine's."},                                      \
    {"calibration-data", 0, OPTION_ROW_ALIAS, "calibrate", NULL, "Model-Optimizer"}
// clang-format on

/* Runs what the words ask for and adds ranges and kept nodes to *options. */
bool verify_run(const ConsoleModel *model, DemiConvertOptions *options, Verified *verified,
                Err *err);

/* Does the conversion break an output? */
bool verify_broken(const Verified *verified);
/* The error of a conversion that breaks an output; false, with it set, where it does. */
bool verify_judge(const Verified *verified, const char *path, Err *err);

/* Lines for people; nothing where nothing was asked for. */
void verify_print(const Verified *verified, FILE *out);
/* The last line: what the verdict comes to, or, of a conversion that was not verified and has casts, that
 * it was not, and what does. None where outputs are broken: the error says all. */
void verify_advise(const Verified *verified, bool casts, FILE *out);
/* Members "calibration" and "verification" of an open object. */
void verify_json(const Verified *verified, JsonWriter *json);

#endif
