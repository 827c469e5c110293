// SPDX-License-Identifier: Apache-2.0
/* A convolution as a line of numbers: what the fake cuDNN notes of plans, and dnn_plans.c reads. */
#ifndef FAKE_DNN_LINE_H
#define FAKE_DNN_LINE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_dnn.h"

/* The numbers of a convolution, in their order; `flags` are residual, bias, ReLU and TF32, bit by bit. */
typedef struct DnnLine {
    int64_t ready_made, dtype, axes, flags;
    int64_t x[DNN_AXES], w[DNN_AXES], y[DNN_AXES];
    int64_t x_strides[DNN_AXES], w_strides[DNN_AXES], y_strides[DNN_AXES];
    int64_t strides[DNN_AXES], dilations[DNN_AXES], begins[DNN_AXES], ends[DNN_AXES];
} DnnLine;
enum { DNN_LINE = sizeof(DnnLine) / sizeof(int64_t) };

static inline bool dnn_line_read(const char *text, DnnConv *conv, bool *ready_made) {
    int64_t numbers[DNN_LINE];
    DnnLine line;
    for (int i = 0; i < DNN_LINE; i++) {
        char *end;
        numbers[i] = strtoll(text, &end, 10);
        if (end == text) return false;
        text = end;
    }
    memcpy(&line, numbers, sizeof line);
    *ready_made = line.ready_made;
    *conv = (DnnConv){.dtype = (Dtype)line.dtype,
                      .axes = (uint32_t)line.axes,
                      .residual = line.flags & 1,
                      .bias = line.flags >> 1 & 1,
                      .relu = line.flags >> 2 & 1,
                      .tf32 = line.flags >> 3 & 1};
    memcpy(conv->x, line.x, sizeof conv->x);
    memcpy(conv->w, line.w, sizeof conv->w);
    memcpy(conv->y, line.y, sizeof conv->y);
    memcpy(conv->x_strides, line.x_strides, sizeof conv->x_strides);
    memcpy(conv->w_strides, line.w_strides, sizeof conv->w_strides);
    memcpy(conv->y_strides, line.y_strides, sizeof conv->y_strides);
    memcpy(conv->strides, line.strides, sizeof conv->strides);
    memcpy(conv->dilations, line.dilations, sizeof conv->dilations);
    memcpy(conv->begins, line.begins, sizeof conv->begins);
    memcpy(conv->ends, line.ends, sizeof conv->ends);
    return true;
}

#endif
