// SPDX-License-Identifier: Apache-2.0
/* What a model can be converted to (`--to`, DEMI_TO_…): the rows of CHOICES_TO in policy.def. */
#ifndef DEMI_CONVERT_TARGET_H
#define DEMI_CONVERT_TARGET_H

#include <stdint.h>

#include "quantized_format.h"

typedef enum TargetKind {
    TARGET_REDUCED, /* nodes compute in the type */
    TARGET_FULL,    /* all nodes do, and nothing is quantized */
    TARGET_HALVED,  /* weights are stored in the type, and nodes compute in float32 */
    TARGET_VALUES,  /* values and weights are quantized, weights to the format */
    TARGET_WEIGHTS, /* weights alone are */
    TARGET_ROWS,    /* weights are, and when the model runs rows of what they are multiplied by */
} TargetKind;

typedef struct ConvertTarget {
    TargetKind kind;
    Dtype dtype;      /* UNDEFINED where something is quantized */
    const char *word; /* of the format of weights, of these alone; else NULL */
} ConvertTarget;

/* By demi.h's constant, from 1 on. */
const ConvertTarget *convert_target(int64_t to);

/* What weights are quantized to; NULL where nothing is. */
const QuantizedFormat *convert_target_format(const ConvertTarget *target);

/* Something is quantized. */
bool convert_target_quantizes(const ConvertTarget *target);

/* The model has no scales of values, so that no data has to say them. */
static inline bool convert_target_has_weights_alone(const ConvertTarget *target) {
    return target->kind == TARGET_WEIGHTS || target->kind == TARGET_ROWS;
}

/* demi.h's constant of a reduced type; 0 where there is none. */
int64_t convert_target_of(Dtype reduced);

#endif
