// SPDX-License-Identifier: Apache-2.0
/* A policy: everything a conversion can be told, from a JSON file, a shipped policy's name, or the
 * options of the command and of demi.h, and as the text of the pipeline it stands for.
 *
 *     {
 *       "policy": "float16",                  shipped lists to start from: float16, bfloat16, fast
 *       "to": "float16",                      or "bfloat16", "int8", "int8-weights", …
 *       "source": "any",                      or "float32": which floating-point types are converted
 *       "activations": "uint8", "symmetric": false, "block": 0,    of quantized models
 *       "rest": "keep", "runtime": "any",     of these, too: what is not quantized, and whose rules hold
 *       "fold": false,                        normalizations are computed into weights first
 *       "simplify": false,                    what demi simplify does comes first
 *       "values": {"h": "int8"}, "weights": {"w": "int4"},         what alone is quantized
 *       "opset": "keep",                      or "auto", or a number
 *       "placement": "mincut",                or "greedy"
 *       "low": ["Conv", "MatMul"],            replaces the list; fp32, follow, widest likewise
 *       "fp32": {"add": ["Relu"], "remove": ["Exp"]},
 *       "conditional": [{"operator": "Resize", "attribute": "mode", "values": ["cubic"]}],
 *       "keep": ["/head/..."], "keep_ops": ["Softmax"], "only": [],          PATTERNs, operators
 *       "ranges": {"h": 3e4, "k": [-1, 2]},   what values were measured to reach: magnitudes, ends
 *       "range_margin": 2,
 *       "inputs": {"x": "float"},             types of inputs that the model declares none for
 *       "io": "keep",                         or "low", or {"inputs": ["x"], "outputs": ["y"]}
 *       "parameters": "offline",              or "runtime" or "both"
 *       "overflow": "pin",                    or "clamp", "inf", "error"
 *       "schemas": ["com.x.Op(T, T?) -> T; T = float|float16"],
 *       "allow_unmatched": false
 *     }
 *
 * All keys may be absent. An unknown one is an error that names the nearest. policy.def has a row
 * for each.
 */
#ifndef DEMI_POLICY_H
#define DEMI_POLICY_H

#include "op_class.h"
#include "pass.h"
#include "policy_settings.h"
#include "vec.h"

typedef VEC(const char *) PolicyNames;

/* By SettingId: choices are demi.h's constants, 0 is "not said"; lists are as the passes' options
 * have them. */
typedef struct ConvertPolicy {
    Arena *arena;                  /* of all text */
    int64_t values[SETTING_COUNT]; /* [SETTING_BASE]: 1 + a Policy of op_class.h */
    PolicyNames lists[SETTING_COUNT];
    bool given[SETTING_COUNT]; /* choices that the caller made; policy_from_options sets them */
    bool measures;             /* channels are measured on data for it now; false by default */
} ConvertPolicy;

/* Reads JSON into *policy, which may hold something already: lists grow, choices are replaced.
 * ERR_USAGE with the position, or the key and what it should be. */
bool policy_read_json(ConvertPolicy *policy, const char *text, Err *err);

/* Writes the whole policy as JSON that reads back as the same one. */
const char *policy_write_json(const ConvertPolicy *policy, Err *err);

/* What the caller says, by options->policy and by the options beside it, and nothing else: choices that nobody made
 * are 0. ERR_USAGE as policy_read_json, and for numbers that are no choice. */
bool policy_read_options(ConvertPolicy *policy, const DemiConvertOptions *options, Arena *arena,
                         Err *err);

/* The policy that options stand for: what options->policy names or holds, then the options beside
 * it. Lists of operators are reduced to what they change, so that two spellings of one policy give
 * the same text. ERR_USAGE for unknown operators, one in two lists, settings that exclude each
 * other. */
bool policy_from_options(ConvertPolicy *policy, const DemiConvertOptions *options, Arena *arena,
                         Err *err);

/* The pipeline, in policy->arena. */
const char *policy_pipeline(const ConvertPolicy *policy);

/* Of it the pass that quantizes, insert-qdq, with its options; in policy->arena. */
const char *policy_quantizer(const ConvertPolicy *policy);

/* Whether it equalizes (passes/equalize.c): by its channel scales or estimates, or by data, where there is some. */
typedef enum PolicyEqualizes {
    POLICY_EQUALIZES_NOT,
    POLICY_EQUALIZES,
    POLICY_EQUALIZES_BY_DATA,
} PolicyEqualizes;
PolicyEqualizes policy_equalizes(const ConvertPolicy *policy);

/* What to say of the result, in policy->arena: which runtimes take it, where not all do and none was chosen; else
 * NULL. */
const char *policy_remark(const ConvertPolicy *policy);

/* The operator classes of the policy; ERR_USAGE as op_classes_new. */
const OpClasses *policy_classes(const ConvertPolicy *policy, Err *err);

#endif
