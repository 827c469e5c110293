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
     "An open size by the name the model has for it, in all inputs. Where nothing says more, "     \
     "batches are 1, sequences 16 and images 64x64, or what else the model takes. May be "         \
     "repeated."}
#define OPTION_CARRY                                                                               \
    {"carry", 0, OPTION_ROW_LIST, "OUT=IN", NULL,                                                  \
     "An output that is an input of the next run, which grows in place where the model appends to " \
     "it: keys and values of a language model, recurrent states. A '*' in both names is any "      \
     "text: 'present.*=past.*'. May be repeated."}
#define OPTION_INPUTS                                                                              \
    {"input", 'i', OPTION_ROW_LIST, "NAME=FILE", NULL,                                             \
     "An input from a file: .npy, .npz, .pb (TensorProto, SequenceProto, OptionalProto), "         \
     "or its bare elements. An .npz without NAME gives all inputs it has arrays of. May be "       \
     "repeated."},                                                                                 \
    {"data", 'd', OPTION_ROW_VALUE, "DIR", NULL,                                                   \
     "Sets of inputs: an .npz (its arrays are called like the inputs), a folder of NAME.npy or "   \
     "of ONNX's input_N.pb, or a folder of such files and folders, each a set; a single .npy for " \
     "a model of one input."},                                                                     \
    {"random", 'r', OPTION_ROW_VALUE, "SEED", NULL,                                                \
     "Random values for inputs that nothing else gives: the same for a seed everywhere. "          \
     "Floats are near normal; integers, masks and counts are what the operators that read them "   \
     "take."},                                                                                     \
    {"shape", 's', OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,                                      \
     "Sizes of an input that the model leaves open; also NAME:1,3 and NAME:[1,3]. They hold for "  \
     "other inputs that have sizes of the same names. May be repeated."}
#define RUN_OPTIONS                                                                                \
    OPTION_INPUTS,                                                                                 \
    OPTION_DIM,                                                                                    \
    {"numerics", 0, OPTION_ROW_VALUE, "MODE", "fast faithful",                                     \
     "What a model is compiled to, as by demi compile. A plan has its own."},                      \
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,                                                  \
     "Threads to compute with; default: as many as there are processors to use."},                 \
    {"kernels", 0, OPTION_ROW_VALUE, "WHOSE", "auto own onednn",                                   \
     "Which kernels compute, where there are several: auto, each where it is the faster one "      \
     "(the default); own, demi's alone; onednn, oneDNN's wherever it can."},                       \
    {"device", 0, OPTION_ROW_VALUE, "NAME", NULL,                                                  \
     "What computes: cpu (the default), or cuda or cuda:NUMBER, an NVIDIA GPU. What the device "    \
     "has no kernels for runs on the processor, with copies between."},                            \
    {"device-memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                           \
     "Most of the device's memory that values, workspace and constants may take, as 500M or 2G; "  \
     "what needs more is an error. Default: any."},                                                \
    {"tf32", 0, OPTION_ROW_VALUE, "WHEN", "off on",                                                \
     "Whether the device may round the factors of float products to TF32, 10 bits of mantissa: "   \
     "off (the default), or on."},                                                                 \
    {"device-graph", 0, OPTION_ROW_VALUE, "WHEN", "on off",                                        \
     "Whether the second run with the same sizes is recorded as a CUDA graph, which later ones "   \
     "repeat: on (the default), or off, each step by itself in every run."},                       \
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                                  \
     "Most memory that values and workspace may take, as 500M or 2G; default: three quarters of "  \
     "the machine's. Calls of functions and constants computed in advance count, too. small: "     \
     "what is 16 bit stays so in memory, which takes less of it and more time; or small,2G."},     \
    {"time", 0, OPTION_ROW_VALUE, "SECONDS", NULL,                                                 \
     "Most time that a run may take, asked before every step and iteration: for loops that may "   \
     "never end. Default: any."},                                                                  \
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
