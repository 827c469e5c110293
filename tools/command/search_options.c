// SPDX-License-Identifier: Apache-2.0
/* The options of demi search, as a table; cmd_search.c reads what they say. */
#include "search_options.h"

#include "run_options.h"
#include "setting_names.h"

/* Settings of conversions are rows of policy.def, as for `demi convert`. */
#define SETTING_ROW(kind, name, arg, words, help) {name, 0, OPTION_ROW_##kind, arg, words, help},

/* Choices are in the order of the numbers that they stand for. */
const OptionRow search_options[] = {
    OPTION_HEADING("Search space and goal"),
    {"candidates", 'c', OPTION_ROW_LIST, "TYPE,...", NULL,
     "Candidate precisions, the widest first; may be repeated. float, float16, bfloat16; aXwY "
     "(integers with X bits for activations and Y for weights: a16w16, a16w8, a16w4, a8w16, a8w8, "
     "a8w4); wY (weight-only: w8, w4); or ACTIVATIONS:WEIGHTS, two types, such as int8:int4, "
     "uint8:int8, or float:fp8. Default: float,float16,a8w8."},
    {"metric", 'm', OPTION_ROW_VALUE, "WHAT", "sqnr cosine top1 accuracy error",
     "Quality metric, relative to the float32 model's outputs. sqnr (default): the lowest "
     "signal-to-noise ratio in dB. cosine: the lowest cosine similarity. top1: the share of rows "
     "whose largest element stays the same. accuracy: the share of rows with the correct largest "
     "element, by --labels. error: the negative of the largest difference relative to the scale."},
    {"eval", 0, OPTION_ROW_VALUE, "COMMAND", NULL,
     "In place of --metric: a command that gets the path of a converted model as its last argument "
     "and prints a score as its last word; larger is better."},
    {"labels", 0, OPTION_ROW_VALUE, "FILE.npy", NULL,
     "Integers, one per row of the first output over all sets of --data, in the order of the sets' "
     "names."},
    {"target", 0, OPTION_ROW_VALUE, "SCORE", NULL, "The score that the result must reach."},
    {"drop", 0, OPTION_ROW_VALUE, "X", NULL,
     "In place of --target: the largest loss of score, relative to the float32 model."},
    {"quantize-outputs", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Also consider integers for the model's outputs. By default these are kept in float32, "
     "because values outside their calibration range would be clipped."},
    {"max-cost", 0, OPTION_ROW_VALUE, "SHARE", NULL,
     "In place of --target: find the best score at this share of the widest candidate's cost."},
    {"bits", 0, OPTION_ROW_VALUE, "N", NULL,
     "In place of --target: find the best score with N bits per weight on average, such as 4.5, "
     "without "
     "scales. The default candidates are then w8 and w4."},
    {"cost", 0, OPTION_ROW_VALUE, "WHAT", "bitops bytes latency",
     "Cost to minimize: bitops (default; multiplications times the bits of both factors), bytes "
     "(of weights and computed values), or latency (of steps measured on this machine)."},
    {"supported", 0, OPTION_ROW_VALUE, "FILE.json", NULL,
     "The candidates that operators support, in the format of AIMET's configurations "
     "(supported_kernels)."},
    {"use-all-candidates", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Ignore --supported, as AIMET's use_all_amp_candidates does."},
    {"algorithm", 0, OPTION_ROW_VALUE, "HOW",
     "solve aimet-binary aimet-interpolation aimet-bruteforce",
     "solve (default): demi's algorithm, which is never worse than AIMET's; or a variant of "
     "AIMET's choose_mixed_precision."},
    {"reverse", 0, OPTION_ROW_FLAG, NULL, NULL,
     "AIMET's reverse search: from the lowest precision up."},
    {"fewer-conversions", 0, OPTION_ROW_FLAG, NULL, NULL,
     "AIMET's third phase: give up part of the savings for fewer conversions."},
    {"sensitivity", 0, OPTION_ROW_VALUE, "HOW", "measured gradient eval",
     "How to determine the sensitivity of each group: measured (default; runs again what depends "
     "on the group), gradient (estimated from gradients of the outputs, without a run per "
     "group; every operator needs a gradient), or eval (by how much the score of a command is "
     "lower if the group alone is converted)."},
    {"eval-sensitivity", 0, OPTION_ROW_VALUE, "COMMAND", NULL,
     "The command of --sensitivity eval, as for --eval, which is the default. It may use less "
     "data. "
     "It runs once per group and candidate."},
    OPTION_HEADING("Conversions, as for demi convert"),
#define IN_RESULT SETTING_ROW
#include "policy.def"
#define IN_NODES SETTING_ROW
#include "policy.def"
#define IN_RUNS SETTING_ROW
#include "policy.def"
    {"policy", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Further settings of the conversions, such as operator lists: a JSON file, or float16, "
     "bfloat16, or fast."},
    OPTION_HEADING("Data for each step"),
    {"calibrate", 0, OPTION_ROW_VALUE, "DIR", NULL,
     "Sets of inputs for calibration ranges. Default: half of the sets of --data that are not held "
     "out, if these are 32 or more; otherwise all of them."},
    {"holdout", 0, OPTION_ROW_VALUE, "DIR|SHARE", NULL,
     "Sets of inputs that the search does not use, on which the result must also reach the target: "
     "a folder, or the share of the sets of --data to hold out, such as 0.25. Default: a third of "
     "the sets, at least 4, if there are 8 or more; 0: none. A result is accepted if the lower end "
     "of its 95 % confidence interval reaches the target."},
    {"holdout-labels", 0, OPTION_ROW_VALUE, "FILE.npy", NULL,
     "The labels of the sets of --holdout DIR, as for --labels."},
    {"eval-holdout", 0, OPTION_ROW_VALUE, "COMMAND", NULL,
     "With --eval: a command that scores a model on other data. The result is accepted if this "
     "score, too, reaches the target, so it should be the lower end of a confidence interval. At "
     "most 3 models are tested."},
    {"probe-data", 0, OPTION_ROW_VALUE, "DIR", NULL,
     "Sets of inputs for sensitivities, in place of those of --data."},
    OPTION_HEADING("Limits"),
    {"evaluations", 0, OPTION_ROW_VALUE, "N", NULL,
     "Largest number of converted models to run (default 200)."},
    {"seconds", 0, OPTION_ROW_VALUE, "S", NULL,
     "Start no evaluation after this time. The result is then the best so far that reaches the "
     "target, as after Ctrl-C."},
    {"probe-sets", 0, OPTION_ROW_VALUE, "N", NULL,
     "Number of sets for sensitivities (default: 2 to 8, as many as it takes to know a group's "
     "noise well; 2 for gradients; all for AIMET's algorithms). Converted models run on all sets."},
    {"journal", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Record all measurements, so that the same command can resume an interrupted search. A search "
     "with another --target, --drop, --cost, or --algorithm uses the measurements, too. It is "
     "refused "
     "if the model, the data, the candidates, the metric, or other options changed."},
    {"cache-bytes", 0, OPTION_ROW_VALUE, "N", NULL,
     "Memory for cached values, which allow running only what depends on a change (default "
     "268435456)."},
    OPTION_HEADING("Output"),
    {"output", 'o', OPTION_ROW_VALUE, "OUT", NULL, "The converted model to write."},
    OPTION_PLACE,
    {"output-dir", 0, OPTION_ROW_VALUE, "DIR", NULL,
     "Folder for all results: model.onnx, model.plan, policy.json, result.json, pareto.json, "
     "pareto.svg, sensitivity.svg, report.html; with AIMET's algorithms also accuracy_list.json "
     "and pareto_list.json."},
    {"policy-out", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "Write the result as a policy: 'demi convert IN -o OUT --policy FILE' writes the same model."},
    {"report", 0, OPTION_ROW_VALUE, "FILE", NULL, "Write an HTML report that opens offline."},
    OPTION_JSON("Also write the result as JSON. Without FILE, JSON goes to standard output and the "
                "text to standard error."),
    OPTION_QUIET,
    OPTION_HEADING("Inputs and execution"),
    OPTION_INPUTS,
    OPTION_DIM,
    {"sets", 0, OPTION_ROW_VALUE, "N", NULL,
     "Number of sets of random inputs, without --data (default 4)."},
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,
     "Number of threads (default: all available CPUs, divided among the processes of mpirun)."},
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,
     "Memory limit for values, workspace, and cached sets of inputs together, such as 500M or 2G."},
    OPTION_HEADING("Other options"),
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};
