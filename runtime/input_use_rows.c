// SPDX-License-Identifier: Apache-2.0
/* The tables; see input_use_rows.h. Each is sorted by operator. */
#include "input_use_rows.h"

#include <stdlib.h>
#include <string.h>

/* An end that is beyond any size, for int32 too. */
enum { FAR = 1 << 30 };

static const InputRow rows[] = {
    {"ArrayFeatureExtractor", 1, INPUT_FACT_INDEX, -1},
    {"Attention", 3, INPUT_FACT_FILL, 1},
    {"Attention", 6, INPUT_FACT_FILL, 1},
    {"BatchNormalization", 4, INPUT_FACT_FILL, 1},
    {"Bernoulli", 0, INPUT_FACT_FILL, 0.5},
    {"BitShift", 1, INPUT_FACT_FILL, 1},
    {"BlackmanWindow", 0, INPUT_FACT_FILL, 16},
    {"CenterCropPad", 1, INPUT_FACT_FILL, 2},
    {"Clip", 1, INPUT_FACT_FILL, -1},
    {"Clip", 2, INPUT_FACT_FILL, 1},
    {"ConstantOfShape", 0, INPUT_FACT_FILL, 2},
    {"CumSum", 1, INPUT_FACT_FILL, 0},
    {"DFT", 1, INPUT_FACT_FILL, 16},
    {"DequantizeLinear", 1, INPUT_FACT_FILL, 0.0625},
    {"Div", 1, INPUT_FACT_DIVISOR, 0},
    {"Dropout", 1, INPUT_FACT_FILL, 0.5},
    {"Dropout", 2, INPUT_FACT_FILL, 0},
    {"Expand", 1, INPUT_FACT_FILL, 1},
    {"GRU", 4, INPUT_FACT_LENGTHS, 0},
    {"Gather", 1, INPUT_FACT_INDEX, 0},
    {"GatherElements", 1, INPUT_FACT_INDEX, 0},
    {"GatherND", 1, INPUT_FACT_COORDINATES, 0},
    {"HammingWindow", 0, INPUT_FACT_FILL, 16},
    {"HannWindow", 0, INPUT_FACT_FILL, 16},
    {"If", 0, INPUT_FACT_CONDITION, 0},
    {"LSTM", 4, INPUT_FACT_LENGTHS, 0},
    {"Loop", 0, INPUT_FACT_FILL, 3},
    {"Loop", 1, INPUT_FACT_FILL, 1},
    {"MaxUnpool", 1, INPUT_FACT_FILL, 0},
    {"MelWeightMatrix", 0, INPUT_FACT_FILL, 8},
    {"MelWeightMatrix", 1, INPUT_FACT_FILL, 64},
    {"MelWeightMatrix", 2, INPUT_FACT_FILL, 8000},
    {"MelWeightMatrix", 3, INPUT_FACT_FILL, 0},
    {"MelWeightMatrix", 4, INPUT_FACT_FILL, 4000},
    {"Mod", 1, INPUT_FACT_DIVISOR, 0},
    {"NegativeLogLikelihoodLoss", 1, INPUT_FACT_INDEX, 1},
    {"NonMaxSuppression", 2, INPUT_FACT_FILL, 16},
    {"NonMaxSuppression", 3, INPUT_FACT_FILL, 0.5},
    {"NonMaxSuppression", 4, INPUT_FACT_FILL, 0},
    {"OneHot", 0, INPUT_FACT_DEPTH, 0},
    {"OneHot", 1, INPUT_FACT_FILL, 8},
    {"Pad", 1, INPUT_FACT_FILL, 0},
    {"QuantizeLinear", 1, INPUT_FACT_FILL, 0.0625},
    {"RNN", 4, INPUT_FACT_LENGTHS, 0},
    {"Range", 0, INPUT_FACT_FILL, 0},
    {"Range", 1, INPUT_FACT_FILL, 8},
    {"Range", 2, INPUT_FACT_FILL, 1},
    {"ReduceL1", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceL2", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceLogSum", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceLogSumExp", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceMax", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceMean", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceMin", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceProd", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceSum", 1, INPUT_FACT_ASCENDING, 0},
    {"ReduceSumSquare", 1, INPUT_FACT_ASCENDING, 0},
    {"Reshape", 1, INPUT_FACT_RESHAPE, 0},
    {"Resize", 2, INPUT_FACT_FILL, 1},
    {"ReverseSequence", 1, INPUT_FACT_LENGTHS, 0},
    {"RoiAlign", 2, INPUT_FACT_INDEX, 0},
    {"RotaryEmbedding", 3, INPUT_FACT_POSITION, 0},
    {"STFT", 1, INPUT_FACT_FILL, 4},
    {"STFT", 3, INPUT_FACT_FILL, 8},
    {"Scatter", 1, INPUT_FACT_INDEX, 0},
    {"ScatterElements", 1, INPUT_FACT_INDEX, 0},
    {"ScatterND", 1, INPUT_FACT_COORDINATES, 0},
    {"SequenceAt", 1, INPUT_FACT_FILL, 0},
    {"SequenceErase", 1, INPUT_FACT_FILL, 0},
    {"SequenceInsert", 2, INPUT_FACT_FILL, 0},
    {"Slice", 1, INPUT_FACT_FILL, 0},
    {"Slice", 2, INPUT_FACT_FILL, FAR},
    {"Slice", 3, INPUT_FACT_ASCENDING, 0},
    {"Slice", 4, INPUT_FACT_FILL, 1},
    {"SoftmaxCrossEntropyLoss", 1, INPUT_FACT_INDEX, 1},
    {"Split", 1, INPUT_FACT_PARTS, 0},
    {"SplitToSequence", 1, INPUT_FACT_PARTS, 0},
    {"Squeeze", 1, INPUT_FACT_ASCENDING, 0},
    {"TensorScatter", 2, INPUT_FACT_FILL, 0},
    {"Tile", 1, INPUT_FACT_FILL, 1},
    {"TopK", 1, INPUT_FACT_FILL, 1},
    {"Trilu", 1, INPUT_FACT_FILL, 0},
    {"Unsqueeze", 1, INPUT_FACT_ASCENDING, 0},
    {"Upsample", 1, INPUT_FACT_FILL, 1},
};

static int by_op(const void *name, const void *row) {
    return strcmp(name, ((const InputRow *)row)->op);
}

const InputRow *input_use_rows(const char *op, size_t *count) {
    size_t total = sizeof rows / sizeof *rows;
    const InputRow *found = bsearch(op, rows, total, sizeof *rows, by_op);
    *count = 0;
    if (!found) return NULL;
    while (found > rows && strcmp(found[-1].op, op) == 0) found--;
    while (found + *count < rows + total && strcmp(found[*count].op, op) == 0) ++*count;
    return found;
}

/* Operands that come out: a bit each; those past the last bit are like it. */
typedef struct Mover {
    const char *op;
    uint32_t operands;
} Mover;

enum { FIRST = 1, SECOND = 2, THIRD = 4, ALL = UINT16_MAX };

static const Mover movers[] = {
    {"Cast", FIRST},
    {"CastLike", FIRST},
    {"Clip", FIRST},
    {"Compress", FIRST},
    {"Concat", ALL},
    {"DepthToSpace", FIRST},
    {"Expand", FIRST},
    {"Flatten", FIRST},
    {"Gather", FIRST},
    {"GatherElements", FIRST},
    {"GatherND", FIRST},
    {"Identity", FIRST},
    {"Max", ALL},
    {"Min", ALL},
    {"Optional", FIRST},
    {"Pad", FIRST},
    {"ReduceMax", FIRST},
    {"ReduceMin", FIRST},
    {"Reshape", FIRST},
    {"ScatterElements", FIRST | THIRD},
    {"ScatterND", FIRST | THIRD},
    {"Slice", FIRST},
    {"SpaceToDepth", FIRST},
    {"Split", FIRST},
    {"Squeeze", FIRST},
    {"Tile", FIRST},
    {"Transpose", FIRST},
    {"Trilu", FIRST},
    {"Unique", FIRST},
    {"Unsqueeze", FIRST},
    {"Where", SECOND | THIRD},
};

static int by_mover(const void *name, const void *row) {
    return strcmp(name, ((const Mover *)row)->op);
}

bool input_use_moves(const char *op, uint32_t operand) {
    const Mover *found =
        bsearch(op, movers, sizeof movers / sizeof *movers, sizeof *movers, by_mover);
    return found && found->operands >> (operand < 15 ? operand : 15) & 1;
}

bool input_use_scales(const char *op) {
    static const char *const names[] = {"Add", "Div", "Einsum", "Gemm", "MatMul", "Mul", "Sub"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], op) == 0) return true;
    return false;
}

InputGroup input_use_group(const char *op) {
    static const struct {
        const char *op;
        InputGroup group;
    } groups[] = {
        {"Add", INPUT_GROUP_SUM},          {"Sub", INPUT_GROUP_SUM},
        {"Mul", INPUT_GROUP_PRODUCT},      {"Where", INPUT_GROUP_CHOICE},
        {"Equal", INPUT_GROUP_COMPARISON}, {"Greater", INPUT_GROUP_COMPARISON},
        {"Less", INPUT_GROUP_COMPARISON},  {"GreaterOrEqual", INPUT_GROUP_COMPARISON},
        {"Not", INPUT_GROUP_LOGIC},        {"LessOrEqual", INPUT_GROUP_COMPARISON},
        {"And", INPUT_GROUP_LOGIC},        {"Or", INPUT_GROUP_LOGIC},
    };
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(groups[i].op, op) == 0) return groups[i].group;
    return INPUT_GROUP_NONE;
}
