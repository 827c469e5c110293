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
    size_t calibrated;           /* sets of inputs that ranges were measured on */
    size_t ranges;               /* values that were measured */
    size_t sets;                 /* of random inputs */
    const char *method;          /* how ends were found; NULL where magnitudes were */
    DemiRoundedWeights *rounded; /* NULL: none. The caller frees it, after the conversion */
    bool prints;                 /* options are printed, and no weights made */
    bool random;                 /* it was verified on these */
    bool bounded;                /* --max-error: */
    double most;                 /* what it may be off by */
    const char *uncut; /* a large file that was run at once (demi_trials_uncut_file), or NULL */
    uint64_t uncut_bytes;
    DemiVerdict *verdict; /* NULL: it was not verified. The caller frees it, after what it
                             gave to the options was used */
} Verified;

/* Options of convert. */
// clang-format off
#define VERIFY_OPTIONS                                                                             \
    {"calibrate", 0, OPTION_ROW_VALUE, "DIR|random", NULL,                                         \
     "Calibrate: run the model on these sets of inputs, or on random ones. Values that come close to the limit of a 16-bit type stay in float32; with --to int8, the measured ranges become the quantization ranges. In weight-only quantization, weights are rounded by GPTQ (--rounding). A set is an .npz, or a folder with NAME.npy or ONNX's input_N.pb; a folder of sets is also accepted. If the model's first axis is dynamic, files of more than 8 MiB are processed in parts."},       \
    {"calibration", 0, OPTION_ROW_VALUE, "minmax|percentile|mse|best",                             \
     "minmax percentile mse best",                                                                 \
     "How --calibrate chooses calibration ranges: minmax (the least and greatest number), percentile (the range of 99.999 % of the numbers), or mse (the least squared error, with clipping errors counted ten times). Bias correction compensates for the average rounding error of weights. best (default): tries each with and without bias correction, and uses the result that is closest to the model; the others take half the time or less. All methods ignore values without an effect, such as those below -3 for HardSwish. best also tries full ranges, and uses them if they are closer by 1 dB."},                                                 \
    {"verify", 0, OPTION_ROW_VALUE, "DIR|random", NULL,                                            \
     "Verify: run both models on such sets, or on random ones. Report the error of each output. demi's runtime rounds every 16-bit result once, like a device that accumulates in float32. If an output has NaN or Inf where the source does not, the exit code is 1 and OUT is not written. demi then names the node where it begins."},                          \
    {"sets", 0, OPTION_ROW_VALUE, "N", NULL,                                                       \
     "Number of sets for --verify random, with different values and dynamic sizes (default 4)."},       \
    {"max-error", 'e', OPTION_ROW_VALUE, "X", NULL,                                                \
     "With --verify: keep nodes in float32 until no output is off by more than X, relative to its largest magnitude. Trials find the nodes, in about 30 to 60 runs. If no choice suffices, the exit code is 1 and nothing is written. Ctrl-C ends the trials with the best result so far."},          \
    {"random", 'r', OPTION_ROW_VALUE, "SEED", NULL,                                                \
     "Seed for --verify random (default 0)."},                                       \
    {"shape", 's', OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,                                      \
     "Dynamic sizes of an input, for --verify random; may be repeated."},       \
    OPTION_DIM,                                                                                    \
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,                                                  \
     "Number of threads (default: all available CPUs)."},                     \
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                                  \
     "Memory limit for values, workspace, cached sets of inputs, and calibration histograms together, such as 500M or 2G (default: three quarters of the machine's memory)."},                                      \
    {"calibration-data", 0, OPTION_ROW_ALIAS, "calibrate", NULL, "Model-Optimizer"}
// clang-format on

/* Runs what the words ask for and adds ranges and kept nodes to *options, whose run the caller gives
 * verified->rounded. */
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
