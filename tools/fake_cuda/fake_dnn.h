// SPDX-License-Identifier: Apache-2.0
/* A graph of operations of the fake cuDNN, and its computation; descriptors are fake_dnn.c's alone. */
#ifndef FAKE_DNN_H
#define FAKE_DNN_H

#include "fake_numbers.h"

enum { DNN_MOST_AXES = 5, DNN_MOST_OPERATIONS = 4, DNN_MOST_TENSORS = 8 };

typedef struct DnnTensor {
    int64_t id, axes, alignment;
    int64_t dims[DNN_MOST_AXES], strides[DNN_MOST_AXES];
    FakeType type;
    bool inner; /* only within the graph */
} DnnTensor;

/* What follows a convolution: adds `b`, or cuts at 0. */
typedef struct DnnStep {
    bool relu;
    DnnTensor b;
} DnnStep;

typedef struct DnnGraph {
    DnnTensor x, w, y;
    int64_t spatial;
    int64_t strides[DNN_MOST_AXES], dilations[DNN_MOST_AXES], begins[DNN_MOST_AXES],
        ends[DNN_MOST_AXES];
    DnnStep steps[DNN_MOST_OPERATIONS];
    int64_t step_count;
    bool tf32; /* the engine rounds float operands */
} DnnGraph;

/* A graph with data: an id's address. */
typedef struct DnnRun {
    DnnGraph graph;
    int64_t ids[DNN_MOST_TENSORS];
    uint64_t at[DNN_MOST_TENSORS], workspace, workspace_size;
    int64_t count;
} DnnRun;

/* Computes it; data is a DnnRun. False after a complaint. */
FakeRun dnn_compute;

#endif
