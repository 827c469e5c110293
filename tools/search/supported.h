// SPDX-License-Identifier: Apache-2.0
/* Which candidates a device's kernels take, as AIMET's configurations say it:
 *
 *     {"defaults": {"supported_kernels": [
 *          {"activation": {"bitwidth": 16, "dtype": "int"}, "param": {"bitwidth": 8, "dtype": "int"}}]},
 *      "op_type": {"Conv": {"supported_kernels": [...]}}}
 *
 * Operators without a list of their own have the one of `defaults`; where there is none either, all
 * candidates are supported. Other keys of such files are not looked at. "dtype" is int or float, and a
 * float of 16 bits is float16 and bfloat16. A kernel without "param" takes any. */
#ifndef DEMI_SUPPORTED_H
#define DEMI_SUPPORTED_H

#include "candidate.h"
#include "groups.h"

typedef struct Supported Supported;

/* Reads the text; NULL with ERR_USAGE where it is nothing of the above. In `arena`. */
Supported *supported_read(const char *text, Arena *arena, Err *err);

/* The first operator that makes the group's values, or computes with them, and does not take the
 * candidate: those that read weights take both its types, others what values have alone. NULL where all
 * take it, and where `supported` is NULL. */
const Node *supported_refusal(const Supported *supported, const Groups *groups, uint32_t group,
                              const Candidate *candidate);

#endif
