// SPDX-License-Identifier: Apache-2.0
/* The table of targets; see convert_target.h. */
#include "convert_target.h"

#include <stddef.h>

#include "setting_names.h"

#define OF_REDUCED(type)                             DTYPE_##type, NULL
#define OF_FULL(type)                                DTYPE_##type, NULL
#define OF_HALVED(type)                              DTYPE_##type, NULL
#define OF_VALUES(format)                            DTYPE_UNDEFINED, #format
#define OF_WEIGHTS(format)                           DTYPE_UNDEFINED, #format
#define OF_ROWS(format)                              DTYPE_UNDEFINED, #format
#define TARGET(constant, word, also, says, kind, of) {TARGET_##kind, OF_##kind(of)},
static const ConvertTarget targets[] = {CHOICES_TO(TARGET, TARGET)};

const ConvertTarget *convert_target(int64_t to) {
    return &targets[to - 1];
}

const QuantizedFormat *convert_target_format(const ConvertTarget *target) {
    return target->word ? quantized_format_named(target->word, true) : NULL;
}

bool convert_target_quantizes(const ConvertTarget *target) {
    return target->word;
}

int64_t convert_target_of(Dtype reduced) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (targets[i].kind == TARGET_REDUCED && targets[i].dtype == reduced) return (int64_t)i + 1;
    return 0;
}
