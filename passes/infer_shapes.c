// SPDX-License-Identifier: Apache-2.0
/* infer-shapes: gives every value the shape that follows from inputs, constants and operators.
 *
 * Before: values carry what the file declares. After: what rewrite/shape can tell is added; small
 * integer contents are followed, so shapes computed by nodes are found. Unknown stays unknown, and
 * no new symbols are made up. A declared dim stays where it says more; where a known one and the
 * inferred one contradict, the inferred one counts, except for graph inputs. Dtypes, kinds and
 * declarations are not touched; a node that no valid model could hold leaves its outputs unknown
 * (with strict, it is an error).
 *
 * Subgraphs are included: If meets its branches; Loop and Scan keep of a carried value what holds
 * before and after an iteration. A function's body is inferred as if nothing were known of its
 * inputs, and calls give nothing. Idempotent; near-linear in nodes, as bodies of loops are walked
 * thrice, nested ones (beyond two levels) once.
 */
#include <stddef.h>
#include <string.h>

#include "call_node.h"
#include "constants.h"
#include "infer_shapes.h"
#include "passes.h"
#include "shape_args.h"
#include "size_names.h"

typedef struct InferShapesOptions {
    bool annotate, strict;
} InferShapesOptions;

static const PassOption options_table[] = {
    {"annotate", OPTION_BOOL, offsetof(InferShapesOptions, annotate), NULL, NULL,
     "add a value_info entry for every intermediate value of known type"},
    {"strict", OPTION_BOOL, offsetof(InferShapesOptions, strict), NULL, NULL,
     "refuse models whose shapes contradict the operators"},
    {0},
};

enum { CALL_BUDGET = 200000 }; /* nodes walked in bodies of functions */

enum {
    LOOP_ROUNDS = 3, /* first guess, what survives an iteration, the result */
    LOOP_NESTING = 2 /* loops nested deeper get one round, with nothing known of carried values */
};

typedef struct Infer {
    Model *model;
    Arena *scratch;
    bool strict;
    bool dead;              /* in a branch that is never taken: ranks must fit all the same */
    bool calls;             /* bodies of functions are walked for each call, with what that knows */
    bool defaults;          /* inputs' defaults count: a model has to be valid with them */
    const CallFrame *frame; /* of the body that is being walked so, or NULL */
    uint64_t budget;        /* nodes that may still be walked so */
    Err *err;
    const ShapeOperand **known; /* [model->value_count], by value id; NULL: not asked for yet */
    uint32_t loops;             /* enclosing loops of the graph being walked */
    uint64_t named;             /* the next size's name, outside loops; 0: they get none */
    uint64_t changes;           /* types that were made more exact */
    ShapeOperand *operands;     /* [operand_capacity]: the node at hand's, one node at a time */
    size_t operand_capacity;
    struct {
        const Type *from, *to;
        const ShapeOperand *shape;
    } made[64]; /* types made last, by hash: equal ones need be in memory once */
} Infer;

static bool infer_graph(Infer *infer, Graph *graph);

/* ---- what is known of values ----------------------------------------------------------------- */

/* Declared and inferred together: each dim from whichever says more, the inferred one in doubt. */
static ShapeOperand merge(Infer *infer, const ShapeOperand *declared,
                          const ShapeOperand *inferred) {
    ShapeOperand merged = *inferred;
    merged.present = true;
    if (!merged.dtype) merged.dtype = declared->dtype;
    if (!declared->has_rank) return merged;
    if (!merged.has_rank) {
        merged.has_rank = true;
        merged.rank = declared->rank;
        merged.dims = declared->dims;
        return merged;
    }
    if (merged.rank != declared->rank) return merged;
    ShapeNum *dims = NULL;
    for (uint32_t i = 0; i < merged.rank; i++) {
        bool better = inferred->dims[i].kind != SHAPE_KNOWN &&
                      declared->dims[i].kind != SHAPE_UNKNOWN &&
                      !shape_num_same(inferred->dims[i], declared->dims[i]);
        if (!better) continue;
        if (!dims) {
            dims = ARENA_ARRAY(infer->scratch, ShapeNum, merged.rank);
            for (uint32_t k = 0; k < merged.rank; k++) dims[k] = inferred->dims[k];
            merged.dims = dims;
        }
        dims[i] = declared->dims[i];
    }
    return merged;
}

static const ShapeOperand *learn(Infer *infer, const Value *value, const ShapeOperand *shape) {
    const ShapeOperand declared = shape_args_of_type(value->type, infer->scratch);
    ShapeOperand *known = ARENA_NEW(infer->scratch, ShapeOperand);
    *known = merge(infer, &declared, shape);
    if (infer->named && !infer->loops && !infer->frame)
        size_names_give(infer->scratch, known, &infer->named);
    infer->known[value->id] = known;
    return known;
}

/* An initializer that is also an input is a default that callers may override; before IR 4 every
 * initializer had to be an input and was constant all the same. */
static bool init_is_constant(const Infer *infer, const Value *value) {
    bool required_input = infer->model->has_ir_version && infer->model->ir_version < 4;
    return value->init && (!value->input || required_input || infer->defaults);
}

/* True where nobody makes a size of the contents: quantized weights, of which models have as many as nodes,
 * are small sometimes. */
static bool is_quantized(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node || !sym_equals(use->node->op_type, "DequantizeLinear") ||
            !domain_is_default(use->node->domain) ||
            model_find_function(value->graph->model, use->node))
            return false;
    return value->uses;
}

static ShapeOperand operand_of_constant(Infer *infer, const Value *value) {
    return is_quantized(value) ? shape_args_of_dims(value->init, infer->scratch)
                               : shape_args_of_tensor(value->init, infer->scratch);
}

static const ShapeOperand *operand_of(Infer *infer, const Value *value) {
    static const ShapeOperand absent = {.present = false};
    if (!value) return &absent;
    if (infer->known[value->id]) return infer->known[value->id];
    ShapeOperand found = {.present = true};
    if (init_is_constant(infer, value)) found = operand_of_constant(infer, value);
    return learn(infer, value, &found);
}

/* ---- subgraphs ------------------------------------------------------------------------------- */

static Graph *body_of(const Node *node, const char *name) {
    return attr_graph(node_attr(node, name));
}

/* What leaves a subgraph by output i. */
static ShapeOperand graph_result(Infer *infer, const Graph *graph, size_t i) {
    const ShapeOperand nothing = {.present = true};
    if (i >= graph->outputs.count) return nothing;
    return *operand_of(infer, graph->outputs.items[i]->use.value);
}

static void set_input(Infer *infer, const Graph *graph, size_t i, const ShapeOperand *shape) {
    if (i < graph->inputs.count) learn(infer, graph->inputs.items[i], shape);
}

static void set_output(Infer *infer, const Node *node, uint32_t i, const ShapeOperand *shape) {
    if (i < node->output_count && node->outputs[i]) learn(infer, node->outputs[i], shape);
}

/* A branch that is never taken need not fit the shapes at hand. */
static bool infer_branch(Infer *infer, Graph *branch, bool dead) {
    bool outside = infer->dead;
    infer->dead |= dead;
    bool ok = infer_graph(infer, branch);
    infer->dead = outside;
    return ok;
}

static bool infer_if(Infer *infer, const Node *node) {
    Graph *then_graph = body_of(node, "then_branch"), *else_graph = body_of(node, "else_branch");
    const ShapeOperand *flag = operand_of(infer, node->input_count ? node->inputs[0].value : NULL);
    bool known = flag->items && flag->item_count == 1 && flag->items[0].kind == SHAPE_KNOWN;
    bool taken = known && flag->items[0].value;
    if (then_graph && !infer_branch(infer, then_graph, known && !taken)) return false;
    if (else_graph && !infer_branch(infer, else_graph, taken)) return false;
    for (uint32_t i = 0; then_graph && else_graph && i < node->output_count; i++) {
        const ShapeOperand a = graph_result(infer, then_graph, i);
        const ShapeOperand b = graph_result(infer, else_graph, i);
        const ShapeOperand met = shape_meet(infer->scratch, &a, &b);
        set_output(infer, node, i, &met);
    }
    return true;
}

static bool same_shape(const ShapeOperand *a, const ShapeOperand *b) {
    if (a->has_rank != b->has_rank) return false;
    if (!a->has_rank) return true;
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        bool both_unknown = !a->dims[i].kind && !b->dims[i].kind;
        if (!both_unknown && !shape_num_same(a->dims[i], b->dims[i])) return false;
    }
    return true;
}

/* Values carried through iterations: body inputs from first_in on, which come back as body
 * outputs from first_out on. */
typedef struct Carried {
    Graph *body;
    ShapeOperand *state; /* [count] */
    uint32_t count;
    size_t first_in, first_out;
} Carried;

/* Meets the state with what an iteration makes of it; true where it was the same already. */
static bool carried_settles(Infer *infer, Carried *carried) {
    bool settled = true;
    for (uint32_t i = 0; i < carried->count; i++) {
        const ShapeOperand after = graph_result(infer, carried->body, carried->first_out + i);
        const ShapeOperand met = shape_meet(infer->scratch, &carried->state[i], &after);
        if (!same_shape(&met, &carried->state[i])) settled = false;
        carried->state[i] = met;
    }
    return settled;
}

/* Values of a graph and those inside it are inferred anew in each round. */
static bool walk_body(Infer *infer, const Carried *carried) {
    for (uint32_t i = 0; i < carried->count; i++)
        set_input(infer, carried->body, carried->first_in + i, &carried->state[i]);
    infer->loops++;
    bool ok = infer_graph(infer, carried->body);
    infer->loops--;
    return ok;
}

/* Iterates until nothing changes, giving up on what still does after some rounds. */
static bool infer_carried(Infer *infer, Carried *carried) {
    const ShapeOperand nothing = {.present = true};
    uint32_t rounds = infer->loops < LOOP_NESTING ? LOOP_ROUNDS : 1;
    for (uint32_t round = 0; round < rounds; round++) {
        if (round + 1 == rounds)
            for (uint32_t i = 0; i < carried->count; i++) carried->state[i] = nothing;
        if (!walk_body(infer, carried)) return false;
        if (carried_settles(infer, carried)) return true;
    }
    return true;
}

/* Contents are not carried: they are what iterations change. */
static void start_state(Infer *infer, const Node *node, uint32_t first, Carried *carried) {
    carried->state = ARENA_ARRAY(infer->scratch, ShapeOperand, carried->count);
    for (uint32_t i = 0; i < carried->count; i++) {
        carried->state[i] = *operand_of(infer, node->inputs[first + i].value);
        carried->state[i].present = true;
        carried->state[i].items = NULL;
    }
}

/* What iterations produced, joined along a new axis of `count` elements. */
static ShapeOperand stacked(Infer *infer, const ShapeOperand *part, int64_t axis, ShapeNum count) {
    ShapeOperand whole = {.present = true, .dtype = part->dtype};
    uint32_t rank = part->rank + 1;
    int64_t place = axis < 0 ? axis + (int64_t)rank : axis;
    if (!part->has_rank || place < 0 || place >= (int64_t)rank) return whole;
    ShapeNum *dims = ARENA_ARRAY(infer->scratch, ShapeNum, rank);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == place ? count : part->dims[i < place ? i : i - 1];
    whole.has_rank = true;
    whole.rank = rank;
    whole.dims = dims;
    return whole;
}

/* Body: (iteration, condition, carried...) to (condition, carried..., parts...). How often it runs
 * is not known: the condition may end it early. */
static bool infer_loop(Infer *infer, const Node *node) {
    Carried carried = {.body = body_of(node, "body"), .first_in = 2, .first_out = 1};
    const ShapeOperand scalar = {.present = true, .has_rank = true};
    const ShapeNum unknown = {.kind = SHAPE_UNKNOWN};
    if (!carried.body) return true;
    carried.count = node->input_count > 2 ? node->input_count - 2 : 0;
    start_state(infer, node, 2, &carried);
    set_input(infer, carried.body, 0, &scalar);
    if (!infer_carried(infer, &carried)) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        ShapeOperand result =
            i < carried.count ? carried.state[i] : graph_result(infer, carried.body, i + 1);
        if (i >= carried.count) result = stacked(infer, &result, 0, unknown);
        set_output(infer, node, i, &result);
    }
    return true;
}

static int64_t attr_axis(const Node *node, const char *name, uint32_t i) {
    uint32_t count;
    const int64_t *axes = attr_ints(node_attr(node, name), &count);
    return i < count ? axes[i] : 0;
}

/* One element of a scanned input, and the number of elements where it is not known yet. */
static ShapeOperand scan_element(Infer *infer, const ShapeOperand *whole, int64_t axis,
                                 ShapeNum *length) {
    ShapeOperand part = {.present = true, .dtype = whole->dtype};
    int64_t place = axis < 0 ? axis + (int64_t)whole->rank : axis;
    if (!whole->has_rank || place < 0 || place >= (int64_t)whole->rank) return part;
    if (length->kind != SHAPE_KNOWN && whole->dims[place].kind) *length = whole->dims[place];
    ShapeNum *dims = ARENA_ARRAY(infer->scratch, ShapeNum, whole->rank);
    uint32_t at = 0;
    for (uint32_t i = 0; i < whole->rank; i++)
        if (i != place) dims[at++] = whole->dims[i];
    part.has_rank = true;
    part.rank = at;
    part.dims = dims;
    return part;
}

static bool shapes_agree(const ShapeOperand *a, const ShapeOperand *b) {
    if (!a->has_rank || !b->has_rank) return true;
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i].kind == SHAPE_KNOWN && b->dims[i].kind == SHAPE_KNOWN &&
            a->dims[i].value != b->dims[i].value)
            return false;
    return true;
}

/* A Scan's states keep their shapes: what the body declares, and gives back, is what comes in. */
static bool states_fit(Infer *infer, const Node *node, const Carried *carried) {
    for (uint32_t i = 0; i < carried->count && i < carried->body->inputs.count; i++) {
        const Type *type = carried->body->inputs.items[i]->type;
        const ShapeOperand declared = shape_args_of_type(type, infer->scratch);
        const ShapeOperand given = *operand_of(infer, node->inputs[i].value);
        const ShapeOperand result = graph_result(infer, carried->body, i);
        if (!shapes_agree(&given, &declared) || !shapes_agree(&given, &result))
            return node_error(node, infer->err, ERR_MODEL,
                              "state %u has a different shape in the body", i);
    }
    return true;
}

/* What is scanned side by side has an axis to scan, of one length. */
static bool lengths_fit(Infer *infer, const Node *node, uint32_t first) {
    ShapeNum length = {.kind = SHAPE_UNKNOWN};
    for (uint32_t i = first; i < node->input_count; i++) {
        const ShapeOperand *whole = operand_of(infer, node->inputs[i].value);
        ShapeNum own = {.kind = SHAPE_UNKNOWN};
        if (whole->has_rank && !whole->rank)
            return node_error(node, infer->err, ERR_MODEL, "cannot scan a scalar");
        scan_element(infer, whole, attr_axis(node, "scan_input_axes", i - first), &own);
        if (own.kind != SHAPE_KNOWN) continue;
        if (length.kind == SHAPE_KNOWN && length.value != own.value)
            return node_error(node, infer->err, ERR_MODEL,
                              "scans inputs of different lengths: %lld and %lld",
                              (long long)length.value, (long long)own.value);
        length = own;
    }
    return true;
}

/* Scan since 9: states and scanned inputs in, states and parts out. Version 8 has a batch axis and
 * lengths besides; nothing is told of it. */
static bool infer_scan(Infer *infer, const Node *node) {
    Carried carried = {.body = body_of(node, "body")};
    int64_t scanned = node_attr_int(node, "num_scan_inputs", -1);
    ShapeNum length = {.kind = SHAPE_UNKNOWN};
    if (!carried.body) return true;
    if (infer->calls && (scanned < 0 || scanned > node->input_count))
        return node_error(node, infer->err, ERR_MODEL, "num_scan_inputs is %lld of %u inputs",
                          (long long)scanned, node->input_count);
    bool usable = scanned >= 0 && scanned <= node->input_count &&
                  opset_version(node->graph->opsets, node->domain) >= 9;
    if (!usable) return infer_graph(infer, carried.body);
    carried.count = node->input_count - (uint32_t)scanned;
    if (infer->strict && !lengths_fit(infer, node, carried.count)) return false;
    start_state(infer, node, 0, &carried);
    for (uint32_t i = 0; i < (uint32_t)scanned; i++) {
        const ShapeOperand *whole = operand_of(infer, node->inputs[carried.count + i].value);
        int64_t axis = attr_axis(node, "scan_input_axes", i);
        const ShapeOperand part = scan_element(infer, whole, axis, &length);
        set_input(infer, carried.body, carried.count + i, &part);
    }
    if (!infer_carried(infer, &carried)) return false;
    if (infer->strict && !states_fit(infer, node, &carried)) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        ShapeOperand result =
            i < carried.count ? carried.state[i] : graph_result(infer, carried.body, i);
        if (i >= carried.count)
            result = stacked(infer, &result, attr_axis(node, "scan_output_axes", i - carried.count),
                             length);
        set_output(infer, node, i, &result);
    }
    return true;
}

/* Sequences hold tensors of the operand's shape already, so elements and tensors pass alike. */
static bool infer_sequence_map(Infer *infer, const Node *node) {
    Graph *body = body_of(node, "body");
    if (!body) return true;
    for (uint32_t i = 0; i < node->input_count; i++) {
        ShapeOperand element = *operand_of(infer, node->inputs[i].value);
        element.wrapped = false;
        element.items = NULL;
        set_input(infer, body, i, &element);
    }
    if (!infer_graph(infer, body)) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        ShapeOperand result = graph_result(infer, body, i);
        result.wrapped = true;
        result.items = NULL;
        set_output(infer, node, i, &result);
    }
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Optional of nothing has the shape that its attribute declares. */
static bool infer_no_value(Infer *infer, const Node *node) {
    ShapeOperand declared = shape_args_of_type(attr_type(node_attr(node, "type")), infer->scratch);
    declared.present = declared.wrapped = true;
    set_output(infer, node, 0, &declared);
    return true;
}

/* What operators do that have bodies or types as attributes, which no shape function can say. */
typedef bool (*Control)(Infer *infer, const Node *node);

static Control control_of(const Node *node) {
    if (sym_equals(node->op_type, "If")) return infer_if;
    if (sym_equals(node->op_type, "Loop")) return infer_loop;
    if (sym_equals(node->op_type, "Scan")) return infer_scan;
    if (sym_equals(node->op_type, "SequenceMap")) return infer_sequence_map;
    if (sym_equals(node->op_type, "Optional") && !node->input_count) return infer_no_value;
    return NULL;
}

typedef struct Visit {
    Infer *infer;
    bool ok;
} Visit;

static void visit_graph(Graph *graph, void *data) {
    Visit *visit = data;
    if (visit->ok) visit->ok = infer_graph(visit->infer, graph);
}

/* Subgraphs of operators that say nothing of how they are called. */
static bool infer_held_graphs(Infer *infer, const Node *node) {
    Visit visit = {infer, true};
    node_each_graph(node, visit_graph, &visit);
    return visit.ok;
}

/* Room for a node's operands, used again for the next node. */
static ShapeOperand *operand_room(Infer *infer, const Node *node) {
    size_t wanted = (size_t)node->input_count + node->output_count;
    if (wanted >= infer->operand_capacity) {
        infer->operand_capacity = wanted * 2 + 1; /* somewhere, also for none */
        infer->operands = ARENA_ARRAY(infer->scratch, ShapeOperand, infer->operand_capacity);
    }
    return infer->operands;
}

/* Whether an operator that does not fit its operands' shapes is a fault: not where it never runs,
 * unless the ranks alone say so. */
static bool is_fault(Infer *infer, const ShapeRow *row, ShapeCall *call) {
    if (!infer->strict) return false;
    if (!infer->dead) return true;
    ShapeOperand *inputs = ARENA_ARRAY(infer->scratch, ShapeOperand, call->input_count);
    for (uint32_t i = 0; i < call->input_count; i++) {
        inputs[i] = call->inputs[i];
        inputs[i].items = NULL;
        if (inputs[i].has_rank)
            inputs[i].dims = ARENA_ARRAY(infer->scratch, ShapeNum, inputs[i].rank);
    }
    ShapeCall again = *call;
    again.inputs = inputs;
    bool ok = shape_infer(row, &again);
    memcpy(call->reason, again.reason, sizeof call->reason);
    return !ok;
}

static bool infer_operator(Infer *infer, const Node *node, const ShapeRow *row) {
    ShapeOperand *inputs = operand_room(infer, node), *outputs = inputs + node->input_count;
    for (uint32_t i = 0; i < node->input_count; i++)
        inputs[i] = *operand_of(infer, node->inputs[i].value);
    for (uint32_t i = 0; i < node->output_count; i++) outputs[i].present = node->outputs[i] != NULL;
    ShapeCall call = {.arena = infer->scratch,
                      .attrs = shape_args_attrs(node, row, infer->scratch),
                      .inputs = inputs,
                      .outputs = outputs,
                      .input_count = node->input_count,
                      .output_count = node->output_count,
                      .strict = infer->calls};
    if (!call.attrs) return true;
    if (!shape_infer(row, &call) && is_fault(infer, row, &call))
        return node_error(node, infer->err, ERR_MODEL, "shapes are invalid: %s", call.reason);
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) learn(infer, node->outputs[i], &outputs[i]);
    return true;
}

/* A call's operands come into the function's body, and the results out of it. */
static bool infer_call(Infer *infer, const Node *node, const Function *function) {
    Graph *body = function->body;
    if (infer->budget < body->node_count + 1u) return true;
    infer->budget -= body->node_count + 1u;
    for (uint32_t i = 0; i < body->inputs.count; i++) {
        const Value *value = i < node->input_count ? node->inputs[i].value : NULL;
        infer->known[body->inputs.items[i]->id] = operand_of(infer, value);
    }
    const CallFrame frame = {.outer = infer->frame, .call = node, .function = function};
    infer->frame = &frame;
    bool ok = infer_graph(infer, body);
    infer->frame = frame.outer;
    for (uint32_t i = 0; ok && i < node->output_count && i < body->outputs.count; i++)
        if (node->outputs[i]) {
            const ShapeOperand result = graph_result(infer, body, i);
            learn(infer, node->outputs[i], &result);
        }
    return ok;
}

static bool infer_node(Infer *infer, const Node *node) {
    const Function *function = infer->calls ? model_find_function(infer->model, node) : NULL;
    if (function) return infer_call(infer, node, function);
    node = call_node(infer->frame, node, infer->scratch, infer->err);
    if (!node) return false;
    const ShapeRow *row = shape_args_row(node);
    Control control = row && domain_is_default(node->domain) ? control_of(node) : NULL;
    if (control) return control(infer, node);
    if (!infer_held_graphs(infer, node)) return false;
    return !row || infer_operator(infer, node, row);
}

/* ---- what becomes known ---------------------------------------------------------------------- */

static size_t hash_shape(const Type *type, const ShapeOperand *shape) {
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = (uint64_t)(uintptr_t)type * odd;
    for (uint32_t i = 0; shape->has_rank && i < shape->rank; i++) {
        bool unknown = shape->dims[i].kind == SHAPE_UNKNOWN;
        hash = (hash ^ (unknown ? 0 : (uint64_t)shape->dims[i].value)) * odd;
    }
    return (size_t)(hash >> 58);
}

/* shape_args_to_type, whose result depends on nothing but its arguments. */
static const Type *type_of_shape(Infer *infer, const Type *type, const ShapeOperand *shape) {
    size_t place = hash_shape(type, shape);
    const ShapeOperand *made = infer->made[place].shape;
    if (made && infer->made[place].from == type && made->wrapped == shape->wrapped &&
        same_shape(made, shape))
        return infer->made[place].to;
    const Type *to = shape_args_to_type(&infer->model->arena, type, shape);
    infer->made[place].from = type;
    infer->made[place].shape = shape;
    infer->made[place].to = to;
    return to;
}

static uint64_t commit_value(Infer *infer, Value *value) {
    const ShapeOperand *known = infer->known[value->id];
    if (!known) return 0;
    const Type *type = type_of_shape(infer, value->type, size_names_drop(infer->scratch, known));
    if (type == value->type) return 0;
    value_set_type(value, type);
    return 1;
}

static uint64_t commit_outputs(Infer *infer, const Node *node) {
    uint64_t changes = 0;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) changes += commit_value(infer, node->outputs[i]);
    return changes;
}

/* Forgets what an earlier round found in a body, then goes through the nodes in order. What is in
 * no body is visited once, and what is found there holds at once. */
static bool infer_graph(Infer *infer, Graph *graph) {
    bool again = graph->owner || (infer->calls && graph->function);
    for (Node *node = again ? graph->first : NULL; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) infer->known[node->outputs[i]->id] = NULL;
    for (Node *node = graph->first; node; node = node_after(node)) {
        if (!infer_node(infer, node)) return false;
        if (!again) infer->changes += commit_outputs(infer, node);
    }
    return true;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Inputs of the main graph and functions keep what is declared; those of bodies learn from the
 * node that runs them. */
static uint64_t commit_graph(Infer *infer, Graph *graph) {
    uint64_t changes = 0;
    for (size_t i = 0; graph->owner && i < graph->inputs.count; i++)
        changes += commit_value(infer, graph->inputs.items[i]);
    for (size_t i = 0; i < graph->initializers.count; i++) {
        Value *value = graph->initializers.items[i];
        if (!value->input && operand_of(infer, value)) changes += commit_value(infer, value);
    }
    for (Node *node = graph->owner ? graph->first : NULL; node; node = node_after(node))
        changes += commit_outputs(infer, node);
    return changes;
}

static bool is_graph_output(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node && use_graph(use) == value->graph) return true;
    return false;
}

static uint64_t annotate_graph(Graph *graph) {
    uint64_t added = 0;
    for (Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++) {
            Value *value = node->outputs[i];
            bool inner = value && !value->info && !sym_is_empty(value->name) &&
                         type_dtype(value->type) && !is_graph_output(value);
            if (!inner) continue;
            value_add_info(value);
            added++;
        }
    return added;
}

static bool dims_differ(const ShapeOperand *a, const ShapeOperand *b, uint32_t i) {
    return a->dims[i].kind == SHAPE_KNOWN && b->dims[i].kind == SHAPE_KNOWN &&
           !shape_num_same(a->dims[i], b->dims[i]);
}

/* An input that is an output, too, and declared with two shapes: of the dims in which they differ
 * nothing is known, as readers may go by either (a strict one goes by the output, as ONNX does).
 * False where they are one. */
static bool adopt_neither(Infer *infer, Value *value, const ShapeOperand *output) {
    if (infer->strict || !value->input || !output->has_rank) return false;
    ShapeOperand shape = shape_args_of_type(value->input->type, infer->scratch);
    if (!shape.has_rank) return false;
    if (shape.rank != output->rank) {
        if (value_type(value)->kind == TYPE_TENSOR)
            value_set_type(value, type_plain_tensor(shape.dtype));
        return true;
    }
    ShapeNum *dims = ARENA_ARRAY(infer->scratch, ShapeNum, shape.rank);
    bool differ = false;
    for (uint32_t i = 0; i < shape.rank; i++) {
        bool here = dims_differ(&shape, output, i);
        dims[i] = here ? (ShapeNum){.kind = SHAPE_UNKNOWN} : shape.dims[i];
        differ = differ || here;
    }
    shape.dims = dims;
    if (differ)
        value_set_type(value, shape_args_to_type(&infer->model->arena, value->type, &shape));
    return differ;
}

/* What is declared of an output counts as what is known of its value, where nothing better is. */
static void adopt_outputs(Infer *infer, const Graph *graph) {
    for (size_t i = 0; i < graph->outputs.count; i++) {
        Value *value = graph->outputs.items[i]->use.value;
        const Type *type = graph->outputs.items[i]->decl->type;
        const ShapeOperand declared = shape_args_of_type(type, infer->scratch);
        if (value->graph != graph || adopt_neither(infer, value, &declared) ||
            shape_args_of_type(value->type, infer->scratch).has_rank)
            continue;
        value_set_type(value, shape_args_to_type(&infer->model->arena, value->type, &declared));
    }
}

/* Bodies of functions that calls are followed into are not looked at on their own. */
static bool infer_model(Infer *infer, const GraphList *graphs) {
    for (size_t i = 0; i < graphs->count; i++) adopt_outputs(infer, graphs->items[i]);
    for (size_t i = 0; i < graphs->count; i++) {
        bool skip = graphs->items[i]->owner || (infer->calls && graphs->items[i]->function);
        if (!skip && !infer_graph(infer, graphs->items[i])) return false;
    }
    for (size_t i = 0; i < graphs->count; i++)
        if (!infer->calls || !graphs->items[i]->function)
            infer->changes += commit_graph(infer, graphs->items[i]);
    return true;
}

bool infer_shapes_strict(PassCtx *ctx, Err *err) {
    Model *model = ctx->model;
    Infer infer = {.model = model,
                   .scratch = ctx->scratch,
                   .strict = true,
                   .calls = true,
                   .defaults = true,
                   .budget = CALL_BUDGET,
                   .err = err};
    infer.known = ARENA_ARRAY(ctx->scratch, const ShapeOperand *, model->value_count);
    GraphList graphs = model_graphs(model, ctx->scratch);
    return infer_model(&infer, &graphs);
}

bool infer_shapes_through_calls(PassCtx *ctx, Err *err) {
    Infer infer = {.model = ctx->model,
                   .scratch = ctx->scratch,
                   .calls = true,
                   .budget = CALL_BUDGET,
                   .err = err};
    infer.known = ARENA_ARRAY(ctx->scratch, const ShapeOperand *, ctx->model->value_count);
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    return infer_model(&infer, &graphs);
}

/* ---- a function's body, for one call --------------------------------------------------------- */

struct ShapeCalls {
    Infer infer;
    Arena scratch; /* emptied after every call */
};

static void shape_calls_end(void *data) {
    arena_free(&((ShapeCalls *)data)->scratch);
}

ShapeCalls *shape_calls_new(PassCtx *ctx) {
    ShapeCalls *calls = ARENA_NEW(ctx->scratch, ShapeCalls);
    arena_init(&calls->scratch, ctx->scratch->trap);
    arena_defer(ctx->scratch, shape_calls_end, calls);
    calls->infer = (Infer){.model = ctx->model, .scratch = &calls->scratch, .calls = true};
    calls->infer.known = ARENA_ARRAY(ctx->scratch, const ShapeOperand *, ctx->model->value_count);
    return calls;
}

/* Formals too: calls in the body look at their types. */
static void commit_body(Graph *graph, void *data) {
    Infer *infer = data;
    for (size_t i = 0; i < graph->inputs.count; i++) commit_value(infer, graph->inputs.items[i]);
    for (Node *node = graph->first; node; node = node_after(node)) {
        commit_outputs(infer, node);
        node_each_graph(node, commit_body, infer);
    }
}

/* Outputs of the graphs in a body have what is declared of them, if nothing better is found. */
static void adopt_body(Graph *graph, void *data) {
    if (graph->owner) adopt_outputs(data, graph);
    for (Node *node = graph->first; node; node = node_after(node))
        node_each_graph(node, adopt_body, data);
}

/* Of a body, and of those that calls in it were followed into. */
static void forget_known(Graph *graph, void *data) {
    Infer *infer = data;
    for (size_t i = 0; i < graph->inputs.count; i++)
        infer->known[graph->inputs.items[i]->id] = NULL;
    for (size_t i = 0; i < graph->initializers.count; i++)
        infer->known[graph->initializers.items[i]->id] = NULL;
    for (Node *node = graph->first; node; node = node_after(node)) {
        const Function *function = model_find_function(infer->model, node);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) infer->known[node->outputs[i]->id] = NULL;
        if (function) forget_known(function->body, infer);
        node_each_graph(node, forget_known, infer);
    }
}

bool infer_shapes_call(ShapeCalls *calls, const CallFrame *outer, const Node *call, Err *err) {
    Infer *infer = &calls->infer;
    const Function *function = model_find_function(infer->model, call);
    Graph *body = function->body;
    const CallFrame frame = {.outer = outer, .call = call, .function = function};
    infer->err = err;
    infer->frame = &frame;
    infer->budget = CALL_BUDGET;
    infer->operand_capacity = 0;
    memset(infer->made, 0, sizeof infer->made);
    for (uint32_t i = 0; i < body->inputs.count && i < call->input_count; i++) {
        const Value *value = call->inputs[i].value;
        ShapeOperand *operand = ARENA_NEW(infer->scratch, ShapeOperand);
        if (value && init_is_constant(infer, value))
            *operand = shape_args_of_tensor(value->init, infer->scratch);
        else if (value)
            *operand = shape_args_of_type(value->type, infer->scratch);
        operand->present = value != NULL;
        infer->known[body->inputs.items[i]->id] = operand;
    }
    adopt_body(body, infer);
    bool ok = infer_graph(infer, body);
    if (ok) commit_body(body, infer);
    forget_known(body, infer);
    arena_reset(&calls->scratch);
    return ok;
}

/* ---- the pass -------------------------------------------------------------------------------- */

const ShapeOperand *const *infer_shapes_known(PassCtx *ctx, Err *err) {
    Infer infer = {
        .model = ctx->model, .scratch = ctx->scratch, .named = SIZE_NAME_FIRST, .err = err};
    infer.known = ARENA_ARRAY(ctx->scratch, const ShapeOperand *, ctx->model->value_count);
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    return infer_model(&infer, &graphs) ? infer.known : NULL;
}

static bool run(PassCtx *ctx, const void *data, Err *err) {
    const InferShapesOptions *options = data;
    Model *model = ctx->model;
    Infer infer = {.model = model, .scratch = ctx->scratch, .strict = options->strict, .err = err};
    infer.known = ARENA_ARRAY(ctx->scratch, const ShapeOperand *, model->value_count);
    GraphList graphs = model_graphs(model, ctx->scratch);
    if (!infer_model(&infer, &graphs)) return false;
    ctx->counts->rewrites += infer.changes;
    for (size_t i = 0; options->annotate && i < graphs.count; i++)
        if (!graphs.items[i]->function) ctx->counts->rewrites += annotate_graph(graphs.items[i]);
    return true;
}

const PassInfo infer_shapes_pass = {
    .name = "infer-shapes",
    .summary = "infer the shape of every value",
    .gives = FACT_SHAPES,
    .options = options_table,
    .options_size = sizeof(InferShapesOptions),
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};

bool infer_again(PassCtx *ctx, Err *err) {
    const PassCounts counts = *ctx->counts;
    const void *defaults = arena_alloc(ctx->scratch, infer_shapes_pass.options_size);
    const bool inferred = infer_dtypes(ctx, NULL, NULL, err) && run(ctx, defaults, err);
    *ctx->counts = counts;
    return inferred;
}
