// SPDX-License-Identifier: Apache-2.0
/* FlexAttention: attention whose scores and probabilities pass through graphs of the model's own.
 *
 * Arithmetic is in float, or double where softmax_precision or Q is; the graphs see tensors of
 * softmax_precision, rounded from that. What must outlive a graph lies in the pool, as its steps
 * empty the scratch arena.
 */
#include <math.h>
#include <string.h>

#include "element_convert.h"
#include "exec_operators.h"
#include "kernel_flex.h"

typedef struct Flex {
    Exec *exec;
    const LoadedStep *step;
    Dtype wide, precision; /* of the arithmetic; of what the graphs see */
    int64_t scores[4];     /* dims */
} Flex;

/* Elements of `from` as the wide type: its own, or in scratch. */
static KernelTensor widen(const Flex *flex, const KernelTensor *from) {
    KernelTensor to = *from;
    if (from->dtype == flex->wide) return to;
    to.dtype = flex->wide;
    to.data = arena_array(&flex->exec->scratch, from->count + 1, kernel_element_size(to.dtype));
    element_convert(to.dtype, to.data, from->dtype, from->data, from->count);
    return to;
}

/* A new tensor of the wide elements, rounded to dtype; NULL with the error set. */
static RtTensor *round_to(const Flex *flex, Dtype dtype, const KernelTensor *from) {
    RtTensor *to = rt_tensor_new(&flex->exec->pool, dtype, from->rank, from->dims, flex->exec->err);
    if (!to) return NULL;
    if (dtype != from->dtype)
        element_convert(dtype, to->tensor.data, from->dtype, from->data, from->count);
    else if (from->count)
        memcpy(to->tensor.data, from->data, from->count * kernel_element_size(dtype));
    return to;
}

/* Space for scores in scratch. */
static KernelTensor new_scores(const Flex *flex) {
    KernelTensor scores = {
        .present = true, .dtype = flex->wide, .rank = 4, .dims = flex->scores, .count = 1};
    for (int i = 0; i < 4; i++) scores.count *= (uint64_t)flex->scores[i];
    scores.data =
        arena_array(&flex->exec->scratch, scores.count + 1, kernel_element_size(flex->wide));
    return scores;
}

/* Puts *scores through the graph of that attribute, if there is one. On success *scores is in
 * scratch again. */
static bool modify(const Flex *flex, const char *attribute, KernelTensor *scores) {
    Exec *exec = flex->exec;
    uint32_t graph = exec_graph_attr(flex->step, attribute);
    if (graph == PLAN_NONE) return true;
    const Plan *plan = &exec->loaded->plan;
    const PlanGraph *body = &plan->graphs[graph];
    if (body->inputs.count != 1 || body->outputs.count != 1)
        return exec_fail(exec, flex->step, "%s does not map one tensor to one tensor", attribute);
    RtTensor *in = round_to(flex, flex->precision, scores);
    if (!in) return false;
    RtValue *value = &exec->values[plan->operands[body->inputs.first]];
    rt_value_set(value, (RtValue){.state = RT_TENSOR, .tensor = in});
    if (!exec_graph(exec, graph)) return false;
    RtValue out = exec_graph_output(exec, graph, 0);
    bool good = out.state == RT_TENSOR && out.tensor->tensor.dtype == flex->precision &&
                out.tensor->tensor.rank == 4 &&
                memcmp(out.tensor->tensor.dims, flex->scores, sizeof flex->scores) == 0;
    if (good) {
        *scores = new_scores(flex);
        element_convert(flex->wide, scores->data, flex->precision, out.tensor->tensor.data,
                        scores->count);
    }
    rt_value_clear(&out);
    return good || exec_fail(exec, flex->step, "%s changes dtype or dims", attribute);
}

static bool find_precision(Flex *flex, Dtype q) {
    int64_t asked = exec_int_attr(flex->step, "softmax_precision",
                                  q == DTYPE_DOUBLE ? DTYPE_DOUBLE : DTYPE_FLOAT);
    if (asked != DTYPE_FLOAT && asked != DTYPE_DOUBLE && !dtype_is_reduced(asked))
        return exec_fail(flex->exec, flex->step, "softmax_precision is not a float type");
    flex->precision = (Dtype)asked;
    bool wide = asked == DTYPE_DOUBLE || q == DTYPE_DOUBLE;
    flex->wide = wide ? DTYPE_DOUBLE : DTYPE_FLOAT;
    return true;
}

static double find_scale(const LoadedStep *step, int64_t size) {
    for (uint32_t i = 0; i < step->plan->attrs.count; i++) {
        const PlainAttr *attr = &step->attrs[i];
        if (attr->kind == PLAIN_FLOAT && attr->name.size == 5 &&
            memcmp(attr->name.text, "scale", 5) == 0)
            return (double)attr->v.f;
    }
    return 1 / sqrt((double)size);
}

static bool find_inputs(Flex *flex, const KernelTensor *inputs[3]) {
    const int64_t *dims[3];
    for (uint32_t i = 0; i < 3; i++) {
        RtTensor *tensor = exec_tensor(flex->exec, flex->step, i);
        if (!tensor) return false;
        inputs[i] = &tensor->tensor;
        dims[i] = inputs[i]->dims;
        if (inputs[i]->rank != 4 || !dtype_is_float(inputs[i]->dtype) ||
            inputs[i]->dtype != inputs[0]->dtype)
            return exec_fail(flex->exec, flex->step, "input %u has a different rank or type", i);
    }
    if (!flex_fits(dims))
        return exec_fail(flex->exec, flex->step, "Q, K and V do not fit together");
    const int64_t scores[] = {dims[0][0], dims[0][1], dims[0][2], dims[1][2]};
    memcpy(flex->scores, scores, sizeof scores);
    return true;
}

/* The scores count against the memory budget like any tensor: one is made, if only to ask. */
static bool within_budget(const Flex *flex) {
    RtTensor *tensor =
        rt_tensor_new(&flex->exec->pool, flex->wide, 4, flex->scores, flex->exec->err);
    RtValue value = {.state = RT_TENSOR, .tensor = tensor};
    if (!tensor) return false;
    rt_value_clear(&value);
    return true;
}

bool exec_flex_attention(Exec *exec, const LoadedStep *step) {
    Flex flex = {.exec = exec, .step = step};
    const KernelTensor *in[3];
    if (!find_inputs(&flex, in) || !find_precision(&flex, in[0]->dtype) || !within_budget(&flex))
        return false;
    int64_t dims[] = {in[0]->dims[0], in[0]->dims[1], in[0]->dims[2], in[2]->dims[3]};
    KernelTensor q = widen(&flex, in[0]), k = widen(&flex, in[1]), scores = new_scores(&flex);
    flex_scores(&q, &k, find_scale(step, q.dims[3]), &scores);
    if (!modify(&flex, "score_mod", &scores)) return false;
    flex_softmax(&scores);
    if (!modify(&flex, "prob_mod", &scores)) return false;
    KernelTensor v = widen(&flex, in[2]);
    KernelTensor y = {.present = true, .dtype = flex.wide, .rank = 4, .dims = dims, .count = 1};
    RtTensor *result = rt_tensor_new(&exec->pool, in[0]->dtype, 4, dims, exec->err);
    if (!result) return false;
    y.count = result->tensor.count;
    y.data = result->tensor.dtype == flex.wide
                 ? result->tensor.data
                 : arena_array(&exec->scratch, y.count + 1, kernel_element_size(flex.wide));
    flex_output(&scores, &v, &y);
    if (result->tensor.dtype != flex.wide)
        element_convert(result->tensor.dtype, result->tensor.data, flex.wide, y.data, y.count);
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = result});
    return true;
}
