// SPDX-License-Identifier: Apache-2.0
/* Dtype inference for passes that change types as they go. */
#ifndef DEMI_INFER_DTYPES_H
#define DEMI_INFER_DTYPES_H

#include "pass.h"

/* before_node is called with every node before its outputs' types are inferred, when its inputs'
 * are exact. It may insert nodes before this one and set its inputs, giving new values their types.
 */
typedef struct InferHook {
    void (*before_node)(void *data, Node *node); /* or NULL */
    void *data;
    /* Called behind every node, when its outputs' types are exact too; of a function's body, for
     * each list of types that it is called with. False with *err set ends it all. May be NULL. */
    bool (*after_node)(void *data, const Node *node, Err *err);
} InferHook;

/* A call of a function whose body is looked at, and the one it stands in. */
typedef struct CallFrame {
    const struct CallFrame *outer; /* NULL: in no function */
    const Node *call;
    const Function *function;
} CallFrame;

/* What the pass infer-dtypes does. inputs (NAME=DTYPE) and hook may be NULL. */
bool infer_dtypes(PassCtx *ctx, const PassStrings *inputs, const InferHook *hook, Err *err);

/* The same with types of inputs that a user gave: what they make of the outputs must be what the model says
 * these are. */
bool infer_dtypes_given(PassCtx *ctx, const PassStrings *inputs, Err *err);

/* What an attribute stands for: one of a function's body may name a parameter of the function,
 * which the call gives, or itself takes from the call around it. NULL where it is absent. *frame
 * is the call in whose body `attr` is, NULL in none; it becomes the one in which the result was
 * given, whose parameters the result's own graphs mean. */
const Attr *call_attr(const CallFrame **frame, const Attr *attr);

/* What is needed to infer call after call. */
typedef struct InferCalls InferCalls;
InferCalls *infer_calls_new(PassCtx *ctx);

/* Gives the values of the function that `call` calls the types they have in this call, those of
 * calls inside it too: for a pass that looks at each call on its own. Types of the caller's values
 * must be exact. `outer` is the call that `call` stands in, or NULL. Takes no memory that stays. */
bool infer_dtypes_call(InferCalls *calls, const CallFrame *outer, const Node *call, Err *err);

/* The values of a function's body have no types again: those of one call are not those of the next. */
void infer_forget_call(const Function *function);

#endif
