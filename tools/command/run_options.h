// SPDX-License-Identifier: Apache-2.0
/* The words of commands that run something (run, bench, compare, check, convert) as the options of
 * sessions and trials. */
#ifndef DEMI_RUN_OPTIONS_H
#define DEMI_RUN_OPTIONS_H

#include "console.h"
#include "session.h"

/* Options of all commands that run something. */
// clang-format off
#define OPTION_DIM                                                                                 \
    {"dim", 0, OPTION_ROW_LIST, "NAME=N", NULL,                                                    \
     "A dynamic size by its name in the model, for all inputs; may be repeated. The defaults are 1 for batches, 16 for sequences, and 64x64 for images, or other sizes that the model accepts."}
#define OPTION_CARRY                                                                               \
    {"carry", 0, OPTION_ROW_LIST, "OUT=IN", NULL,                                                  \
     "State: an output that becomes an input of the next run, such as a KV cache or a recurrent state. It grows in place if the model appends to it. A '*' in both names stands for any text: 'present.*=past.*'. May be repeated."}
#define OPTION_INPUTS                                                                              \
    {"input", 'i', OPTION_ROW_LIST, "NAME=FILE", NULL,                                             \
     "An input from a file: .npy, .npz, .pb (TensorProto, SequenceProto, OptionalProto), or raw elements. An .npz without NAME sets all inputs that it has arrays for. May be repeated."},                                                                                 \
    {"data", 'd', OPTION_ROW_VALUE, "DIR", NULL,                                                   \
     "Sets of inputs: an .npz with arrays named after the inputs; a folder with NAME.npy or ONNX's input_N.pb; a folder of such files and folders, one per set; or a single .npy for a model with one input."},                                                                     \
    {"random", 'r', OPTION_ROW_VALUE, "SEED", NULL,                                                \
     "Seed of random values for inputs that you do not give; the values are the same on every machine. Floating-point values are nearly normal. Integers, masks, and counts suit the operators that read them."},                                                                                     \
    {"shape", 's', OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,                                      \
     "Dynamic sizes of an input; also NAME:1,3 and NAME:[1,3]. They apply to other inputs with sizes of the same names, too. May be repeated."}
#define RUN_OPTIONS                                                                                \
    OPTION_INPUTS,                                                                                 \
    OPTION_DIM,                                                                                    \
    {"numerics", 0, OPTION_ROW_VALUE, "MODE", "fast faithful",                                     \
     "How to compile a model, as in 'demi compile'. A plan has its own numerics."},                      \
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,                                                  \
     "Number of threads (default: all available CPUs)."},                 \
    {"kernels", 0, OPTION_ROW_VALUE, "WHOSE", "auto own onednn",                                   \
     "Kernels to use if there are several: auto (default; the faster one), own (only demi's), or onednn (oneDNN's wherever possible)."},                       \
    {"device", 0, OPTION_ROW_VALUE, "NAME", NULL,                                                  \
     "Device: cpu (default), or cuda or cuda:NUMBER, an NVIDIA GPU. Steps without a GPU kernel run on the CPU, with copies in between."},                            \
    {"device-memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                           \
     "Limit on device memory for values, workspace, and constants, such as 500M or 2G; a run that needs more is an error. Default: no limit."},                                                \
    {"tf32", 0, OPTION_ROW_VALUE, "WHEN", "off on",                                                \
     "Allow the device to round the factors of float32 products to TF32, with 10 bits of mantissa: off (default) or on."},                                                                 \
    {"device-graph", 0, OPTION_ROW_VALUE, "WHEN", "on off",                                        \
     "Record the second run with the same sizes as a CUDA graph, which later runs replay: on (default), or off, which launches each step by itself in every run."},                       \
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                                  \
     "Memory limit for values and workspace, such as 500M or 2G (default: three quarters of the machine's memory). It includes function calls and constants computed in advance. small: keep 16-bit values in 16-bit in memory, which saves memory and takes more time. Or both: small,2G."},     \
    {"time", 0, OPTION_ROW_VALUE, "SECONDS", NULL,                                                 \
     "Time limit of a run, checked at every step and iteration, for loops that may never end. Default: no limit."},                                                                  \
    OPTION_DATA_ROOT,                                                                              \
    OPTION_HARDLINKS
// clang-format on

/* What the words say of how models are compiled and run, and of their inputs; lists are parsed's,
 * and the model is the one that errors name. `judged`: without --numerics models are compiled
 * faithful, with every value kept. Where oneDNN is asked for and can't be had, a line says so, and
 * demi's own kernels run. ERR_USAGE where a word is not a number. */
bool run_options_fill(const ConsoleModel *model, bool judged, SessionOptions *options, Err *err);
/* What --device names; NULL where that is the processor. */
const char *run_options_device(const Parsed *parsed);
/* Those of compiling alone. */
bool run_options_compile(const Parsed *parsed, bool judged, DemiCompileOptions *options, Err *err);

/* Those of running alone. */
bool run_options_context(const Parsed *parsed, DemiContextOptions *options, Err *err);

/* A model as console_load opens it, or a plan by its path. */
DemiSource run_source(ConsoleModel *model);

/* What is shown of trials, with the time that remains. From the search for nodes to keep on, Ctrl-C
 * ends that search with the best so far. */
typedef struct RunProgress {
    Program *program;
    bool holds; /* Ctrl-C waits to be asked for */
} RunProgress;
/* A DemiProgressFn; `progress` is a RunProgress. */
bool run_progress(void *progress, const char *what, size_t done, size_t total);
/* Takes the line away, and lets Ctrl-C end the program again. */
void run_progress_end(RunProgress *progress);

/* The whole number that an option has, from `least` on; `otherwise` where it is not given. */
bool parsed_number(const Parsed *parsed, const char *option, uint64_t least, uint64_t *number,
                   uint64_t otherwise, Err *err);
/* A number that is not negative. */
bool parsed_real(const Parsed *parsed, const char *option, double *number, double otherwise,
                 Err *err);
/* --max-error and --atol, where the command has them. */
bool parsed_limit(const Parsed *parsed, DemiLimit *limit, Err *err);

#endif
