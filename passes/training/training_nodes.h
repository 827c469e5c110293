// SPDX-License-Identifier: Apache-2.0
/* Nodes of a training graph that is being made: each is last in it, and what is made has its name
 * where nothing else in the model has. */
#ifndef DEMI_TRAINING_NODES_H
#define DEMI_TRAINING_NODES_H

#include "pass.h"

typedef struct TrainingNodes {
    PassCtx *ctx;
    Graph *graph; /* within the model's, which it sees */
    int64_t opset;
    Sym training_domain; /* ai.onnx.preview.training */
} TrainingNodes;

/* A new, empty graph, named "training". */
TrainingNodes training_nodes(PassCtx *ctx);
/* The same of one that there is. */
TrainingNodes training_nodes_in(PassCtx *ctx, Graph *graph);

Value *training_value(const TrainingNodes *nodes, const char *name, const Type *type);
Value *training_input(const TrainingNodes *nodes, const char *name, const Type *type);
/* An initializer: a number of that type, which `number` points at. */
Value *training_constant(const TrainingNodes *nodes, const char *name, Dtype dtype,
                         const void *number);

/* A node with so many operands, omitted so far, and its results one by one. */
Node *training_node(const TrainingNodes *nodes, const char *op, Sym domain, uint32_t inputs);
Value *training_output(const TrainingNodes *nodes, Node *node, const char *name, const Type *type);
/* op(operands) of ai.onnx: its result, of that type. */
Value *training_op(const TrainingNodes *nodes, const char *op, Value *const *operands,
                   uint32_t count, const Type *type);

/* After a step the initializer `key` is what `value` was in it. */
void training_bind(TrainingInfo *info, Value *key, Value *value);

/* Drops the import of ai.onnx.preview.training where no node is of that domain. */
void training_forget_domain(Model *model, Arena *scratch);

/* ---- optimizers ------------------------------------------------------------------------------ */

typedef enum TrainingOptimizer {
    TRAINING_SGD,
    TRAINING_MOMENTUM,
    TRAINING_ADAM,
    TRAINING_ADAGRAD,
} TrainingOptimizer;

typedef struct TrainingUpdate {
    TrainingOptimizer optimizer;
    float rate, momentum, decay; /* momentum: of TRAINING_MOMENTUM alone */
    Value *const *parameters;    /* [count]: initializers */
    Value *const *gradients;     /* [count] */
    uint32_t count;
} TrainingUpdate;

/* An initializer, and what it becomes. */
typedef struct TrainingPair {
    Value *key, *value;
} TrainingPair;

typedef VEC(TrainingPair) TrainingPairs;

/* The optimizer's node, of ai.onnx.preview.training (sgd in operators of ai.onnx), with initializers
 * for its state, the rate and the number of steps: all that a step updates. */
TrainingPairs training_update(const TrainingNodes *nodes, const TrainingUpdate *update);

#endif
