// SPDX-License-Identifier: Apache-2.0
/* What the files of the export share; onnx_export.h is its interface. Each put_ function puts one
 * message as field `number` of the message that is open, in the counting and in the writing pass
 * alike. */
#ifndef DEMI_EXPORT_PARTS_H
#define DEMI_EXPORT_PARTS_H

#include <onnx.pb-c.h>

#include "onnx_export.h"
#include "onnx_fields.h"
#include "workers.h"

/* Which tensors leave the model. */
typedef enum Spill {
    SPILL_NONE,
    SPILL_INITIALIZERS, /* and whatever was external before */
    SPILL_ALL           /* all that can */
} Spill;

/* The place of a tensor in the data file, in the order of writing. */
typedef struct Spilled {
    const Tensor *tensor;
    uint64_t offset, size;
} Spilled;

/* Taken while writing, and read by the thread that checks what is written meanwhile. */
typedef struct TensorSum {
    _Atomic(const Tensor *) tensor; /* NULL: a free slot; set after the sum */
    uint64_t sum;
} TensorSum;

struct ExportPlan {
    WireWriter w;
    const Model *model;
    Arena *arena;
    Spill spill;
    const char *data_name;
    VEC(Spilled) spilled;
    size_t next_spilled; /* writing: the next to be named */
    uint64_t size, data_size;
    bool was_external; /* a tensor of the model lies in another file */
    uint64_t streamed; /* tensors that get a checksum */
    TensorSum *sums;   /* open addressing, sum_mask + 1 slots; NULL before the first pass */
    uint64_t sum_mask;

    /* export_stream.c's. For writing, made when the first tensor is streamed: */
    Workers *workers;
    unsigned char *pieces; /* the one that is read and the one that is written */
    /* For checking, which may go on meanwhile: */
    Workers *checkers;
    unsigned char *check_chunks; /* for each lane, what it reads back */
};

/* True in the pass that measures. */
static inline bool plan_counts(const ExportPlan *plan) {
    return !plan->w.sink;
}

typedef enum TensorRole { ROLE_INITIALIZER, ROLE_OTHER } TensorRole;

typedef struct TensorField {
    uint32_t number;
    TensorRole role;
    Sym name; /* written instead of the tensor's own; NULL: its own */
} TensorField;

/* export_tensor.c. False, with the writer failed, where data can't be had. */
void put_tensor(ExportPlan *plan, const TensorField *field, const Tensor *tensor);
void put_sparse_tensor(ExportPlan *plan, const TensorField *field, const SparseTensor *sparse);

/* export_stream.c. What checking needs, once it is known how many tensors get a checksum; and a
 * tensor's raw data to the sink, or, where that is NULL, to the bytes field that is open. */
void export_make_sums(ExportPlan *plan);
bool export_stream_tensor(ExportPlan *plan, const ByteSink *sink, const Spilled *what, Err *err);

/* export_type.c */
void put_entries(ExportPlan *plan, uint32_t number, const KeyValue *entries);
void put_name_ref(ExportPlan *plan, uint32_t number, const NameRef *ref);
void put_type(ExportPlan *plan, uint32_t number, const Type *type);
void put_value_info(ExportPlan *plan, uint32_t number, Sym name, const ValueDecl *decl);
void put_opsets(ExportPlan *plan, uint32_t number, const OpsetImports *opsets);

/* export_node.c */
void put_node(ExportPlan *plan, uint32_t number, const Node *node);
void put_attr(ExportPlan *plan, uint32_t number, const Attr *attr);

/* export_graph.c */
void put_graph(ExportPlan *plan, uint32_t number, const Graph *graph);
void put_model(ExportPlan *plan);

#endif
