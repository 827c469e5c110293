// SPDX-License-Identifier: Apache-2.0
/* From what reads a value back to the inputs it is made of; see input_use.h.
 *
 * Steps are walked from the last to the first. Each operand gets what its operator asks of it
 * (INPUT of operators/) and, where the operator hands values on, what is asked of its results.
 * An input ends with all that its readers ask.
 */
#include "input_use.h"

#include <math.h>
#include <string.h>

#include "exec.h"
#include "op_record.h"

enum { DEPTH_MOST = 64 };

/* Constants beyond it are not counts or shifts. */
static const double countable = 1e15;

/* A constant that is as low closes what it is added to, or put in the place of. */
static const double closing = -1000;

typedef struct Walk {
    const LoadedPlan *loaded;
    const Plan *plan;
    Arena *arena;
    InputUse *uses; /* [value_count] */
    bool *angles;   /* [value_count]: it goes into a sine or cosine */
    double *known;  /* [value_count]: what all its elements are; NaN where that is not known */
    bool *visited;  /* [graph_count] */
    unsigned depth;
} Walk;

/* ---- what is asked --------------------------------------------------------------------------- */

static bool is_open(const InputUse *use) {
    return use->kind == INPUT_ANY;
}

static void narrow(InputUse *use, const InputUse *by) {
    if (by->low > use->low) use->low = by->low;
    if (by->high < use->high) use->high = by->high;
    if (by->high_dim && !use->high_dim) {
        use->high_dim = by->high_dim;
        use->less = by->less;
    }
}

/* What is asked by one more reader: what says more counts, within all bounds. */
static void ask(Walk *w, uint32_t value, InputUse by) {
    if (value == PLAN_NONE) return;
    InputUse *use = &w->uses[value];
    if (by.avoids && !use->avoids) {
        use->avoids = true;
        use->avoided = by.avoided;
    }
    if (is_open(&by)) return;
    bool more = is_open(use) || (use->kind == INPUT_RANGE && by.kind != INPUT_RANGE);
    if (more) {
        use->kind = by.kind;
        use->fill = by.fill;
    }
    narrow(use, &by);
}

static void ask_fill(Walk *w, uint32_t value, double fill) {
    InputUse use = INPUT_USE_ANY;
    use.kind = INPUT_FILL;
    use.fill = fill;
    ask(w, value, use);
}

static int64_t dim_of(const Walk *w, uint32_t value, int64_t axis, const char **name) {
    const PlanValue *v = &w->plan->values[value];
    *name = NULL;
    if (v->rank == PLAN_NONE || axis < -(int64_t)v->rank || axis >= (int64_t)v->rank) return -1;
    int64_t dim = w->plan->numbers[v->dims + (uint64_t)(axis < 0 ? axis + v->rank : axis)];
    if (dim <= -2) *name = plan_text(w->plan, (uint32_t)(-2 - dim), w->arena);
    return dim < 0 ? -1 : dim;
}

/* Bounds `use` by a size of a value, less so much; false where nothing is known of it. */
static bool bound(const Walk *w, InputUse *use, uint32_t value, int64_t axis, int64_t less) {
    const char *name = NULL;
    int64_t dim = value == PLAN_NONE ? -1 : dim_of(w, value, axis, &name);
    if (dim >= 0) use->high = dim > less ? dim - less : 0;
    use->high_dim = name;
    use->less = less;
    return dim >= 0 || name;
}

static bool is_integer(const Walk *w, uint32_t value) {
    Dtype dtype = value == PLAN_NONE ? DTYPE_UNDEFINED : (Dtype)w->plan->values[value].dtype;
    return dtype_is_integer(dtype) || dtype == DTYPE_BOOL;
}

static const OpRecord *record_of(const LoadedStep *step) {
    return op_record_find(step->domain, step->op);
}

static uint32_t input_of(const LoadedStep *step, uint32_t i) {
    return i < step->plan->inputs.count ? step->inputs[i] : PLAN_NONE;
}

static double known_of(const Walk *w, const LoadedStep *step, uint32_t i) {
    uint32_t value = input_of(step, i);
    return value == PLAN_NONE ? NAN : w->known[value];
}

/* ---- constants ------------------------------------------------------------------------------- */

/* What all elements are: a fill of a mask may have been computed in advance. */
static double constant_item(const KernelTensor *tensor) {
    enum { MOST = 1 << 16 };
    uint64_t bits = 0;
    double value = NAN;
    size_t size = kernel_element_size(tensor->dtype);
    const char *data = tensor->data;
    if (!data || tensor->dtype == DTYPE_STRING || size > sizeof bits || tensor->count - 1 >= MOST)
        return NAN;
    if (memcmp(data, data + size, (tensor->count - 1) * size) != 0) return NAN;
    memcpy(&bits, data, size);
    return dtype_to_double(tensor->dtype, bits, &value) ? value : NAN;
}

static void find_known(Walk *w) {
    for (uint32_t i = 0; i < w->plan->value_count; i++)
        w->known[i] =
            w->loaded->constants[i].present ? constant_item(&w->loaded->constants[i]) : NAN;
    for (uint32_t s = 0; s < w->plan->step_count; s++) {
        const LoadedStep *step = &w->loaded->steps[s];
        if (step->plan->outputs.count == 0 || step->outputs[0] == PLAN_NONE) continue;
        double *made = &w->known[step->outputs[0]];
        if (strcmp(step->op, "ConstantOfShape") == 0) {
            *made = 0;
            for (uint32_t i = 0; i < step->plan->attrs.count; i++)
                if (step->attrs[i].kind == PLAIN_TENSOR && step->attrs[i].v.tensor.data)
                    *made = constant_item(step->attrs[i].v.tensor.data);
        } else if (op_record_gives(record_of(step), 0)) {
            *made = known_of(w, step, 0);
        }
    }
}

/* ---- rows of the table ----------------------------------------------------------------------- */

static InputUse index_use(const Walk *w, uint32_t table, int64_t axis) {
    InputUse use = INPUT_USE_ANY;
    use.kind = INPUT_RANGE;
    use.low = 0;
    if (!bound(w, &use, table, axis, 1)) use.high = 0;
    return use;
}

/* Coordinates into the leading sizes: each has to fit the least of them. */
static InputUse coordinate_use(const Walk *w, const LoadedStep *step, uint32_t operand) {
    uint32_t table = input_of(step, 0);
    const char *name = NULL;
    int64_t first = exec_int_attr(step, "batch_dims", 0);
    if (first < 0 || first >= PLAN_RANK_LIMIT) first = 0;
    int64_t count = dim_of(w, input_of(step, operand), -1, &name);
    InputUse use = index_use(w, table, first);
    for (int64_t i = 1; i < count && i < 64; i++) {
        InputUse other = index_use(w, table, first + i);
        narrow(&use, &other);
    }
    return use;
}

/* As many as the data has steps; 1 where that is not known. */
static InputUse length_use(const Walk *w, const LoadedStep *step, const OpInput *row) {
    InputUse use = INPUT_USE_ANY;
    int64_t axis = exec_int_attr(step, "time_axis", exec_int_attr(step, "layout", 0));
    use.kind = row->fact == INPUT_FACT_PARTS ? INPUT_PARTS : INPUT_FILL;
    use.fill = INT32_MAX;
    if (row->fact == INPUT_FACT_PARTS) axis = exec_int_attr(step, "axis", 0);
    if (bound(w, &use, input_of(step, 0), axis, 0)) return use;
    use.kind = INPUT_FILL;
    use.fill = 1;
    return use;
}

static void ask_row(Walk *w, const LoadedStep *step, const OpInput *row) {
    InputUse use = INPUT_USE_ANY;
    uint32_t value = input_of(step, row->operand);
    if (value == PLAN_NONE) return;
    switch (row->fact) {
    case INPUT_FACT_INDEX:
        use = index_use(w, input_of(step, 0), exec_int_attr(step, "axis", (int64_t)row->number));
        break;
    case INPUT_FACT_COORDINATES: use = coordinate_use(w, step, row->operand); break;
    case INPUT_FACT_POSITION:
        use = index_use(w, input_of(step, 1), 0);
        use.kind = INPUT_ASCENDING;
        break;
    case INPUT_FACT_DEPTH:
        use.kind = INPUT_RANGE;
        use.low = use.high = 0;
        if (known_of(w, step, 1) > 1) use.high = (int64_t)fmin(known_of(w, step, 1), countable) - 1;
        break;
    case INPUT_FACT_FILL:
        use.kind = INPUT_FILL;
        use.fill = row->number;
        break;
    case INPUT_FACT_DIVISOR:
        if (!is_integer(w, value)) return;
        use.kind = INPUT_RANGE;
        use.low = 1;
        use.high = 3;
        break;
    case INPUT_FACT_CONDITION:
        use.kind = INPUT_RANGE;
        use.low = 0;
        use.high = 1;
        break;
    case INPUT_FACT_ASCENDING: use.kind = INPUT_ASCENDING; break;
    case INPUT_FACT_RESHAPE: use.kind = INPUT_RESHAPE; break;
    case INPUT_FACT_LENGTHS:
    case INPUT_FACT_PARTS: use = length_use(w, step, row); break;
    }
    ask(w, value, use);
}

/* ---- handing on ------------------------------------------------------------------------------ */

static bool is_op(const LoadedStep *step, const char *op) {
    return strcmp(step->op, op) == 0;
}

/* A part of a shape or of a list of axes is no such list itself. */
static InputUse part_of(const LoadedStep *step, InputUse use) {
    bool cut = is_op(step, "Concat") || is_op(step, "Gather") || is_op(step, "Slice");
    if (cut && (use.kind == INPUT_RESHAPE || use.kind == INPUT_PARTS)) {
        use.kind = INPUT_FILL;
        use.fill = 1;
    }
    return use;
}

static void pass_moved(Walk *w, const LoadedStep *step, const OpRecord *record) {
    for (uint32_t k = 0; k < step->plan->outputs.count; k++) {
        if (step->outputs[k] == PLAN_NONE) continue;
        InputUse use = part_of(step, w->uses[step->outputs[k]]);
        for (uint32_t i = 0; i < step->plan->inputs.count; i++)
            if (op_record_gives(record, i)) ask(w, step->inputs[i], use);
    }
}

static int64_t shifted(int64_t bound, int64_t open, int64_t shift) {
    int64_t made;
    return bound == open || __builtin_add_overflow(bound, shift, &made) ? open : made;
}

/* Bounds of x where x + c, or x - c, has these. */
static InputUse shift_bounds(const InputUse *use, int64_t shift) {
    InputUse by = *use;
    by.low = shifted(use->low, INT64_MIN, shift);
    by.high = shifted(use->high, INT64_MAX, shift);
    by.less = use->less - shift;
    by.avoids = false;
    return by;
}

/* x + c, x - c and c - x for a constant c. */
static void pass_sum(Walk *w, const LoadedStep *step, const InputUse *use) {
    bool minus = is_op(step, "Sub");
    for (uint32_t i = 0; i < 2; i++) {
        double c = known_of(w, step, 1 - i);
        bool negated = minus && i == 1;
        if (!(fabs(c) < countable)) continue;
        if (use->kind == INPUT_FILL)
            ask_fill(w, input_of(step, i),
                     negated ? c - use->fill
                     : minus ? use->fill + c
                             : use->fill - c);
        else if (!negated && is_integer(w, input_of(step, i)))
            ask(w, input_of(step, i), shift_bounds(use, minus ? (int64_t)c : -(int64_t)c));
    }
}

/* A product with a large negative number adds what closes: its operand has to be 0. A product of
 * masks is open where all of them are. */
static void pass_product(Walk *w, const LoadedStep *step, const InputUse *use) {
    for (uint32_t i = 0; i < 2; i++) {
        if (known_of(w, step, 1 - i) <= closing)
            ask_fill(w, input_of(step, i), 0);
        else if (use->kind == INPUT_FILL && use->fill == 1 && isnan(known_of(w, step, 1 - i)))
            ask_fill(w, input_of(step, i), 1);
    }
}

/* A comparison with a constant that is to be true, or false. */
static void pass_comparison(Walk *w, const LoadedStep *step, const InputUse *use) {
    double c = known_of(w, step, 1);
    uint32_t value = input_of(step, 0);
    /* A branch for one value, such as a sampling rate, is the one that is made for it. */
    if (use->kind == INPUT_RANGE && is_op(step, "Equal") && fabs(c) < countable)
        ask_fill(w, value, c);
    if (!(fabs(c) < countable) || use->kind != INPUT_FILL) return;
    bool wanted = use->fill != 0;
    if (is_op(step, "Equal") && wanted) {
        ask_fill(w, value, c);
    } else if (is_op(step, "Equal")) {
        InputUse by = INPUT_USE_ANY;
        by.avoids = true;
        by.avoided = (int64_t)c;
        ask(w, value, by);
    } else if (is_op(step, "Greater")) {
        ask_fill(w, value, wanted ? c + 1 : c);
    } else if (is_op(step, "GreaterOrEqual")) {
        ask_fill(w, value, wanted ? c : c - 1);
    } else if (is_op(step, "Less")) {
        ask_fill(w, value, wanted ? c - 1 : c);
    } else {
        ask_fill(w, value, wanted ? c : c + 1);
    }
}

static void pass_choice(Walk *w, const LoadedStep *step) {
    if (known_of(w, step, 1) <= closing)
        ask_fill(w, input_of(step, 0), 0);
    else if (known_of(w, step, 2) <= closing)
        ask_fill(w, input_of(step, 0), 1);
}

static void pass_angles(Walk *w, const LoadedStep *step, const OpRecord *record) {
    bool begins = is_op(step, "Sin") || is_op(step, "Cos"), angle = begins;
    for (uint32_t k = 0; k < step->plan->outputs.count; k++)
        angle = angle || (step->outputs[k] != PLAN_NONE && w->angles[step->outputs[k]]);
    if (!angle) return;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++)
        if (step->inputs[i] != PLAN_NONE &&
            (begins || op_record_gives(record, i) || op_record_has(record, OP_LINEAR)))
            w->angles[step->inputs[i]] = true;
}

static void pass_logic(Walk *w, const LoadedStep *step, const InputUse *use) {
    bool fill = use->kind == INPUT_FILL;
    if (is_op(step, "Not")) {
        if (fill) ask_fill(w, input_of(step, 0), use->fill == 0);
    } else if (fill &&
               ((is_op(step, "And") && use->fill != 0) || (is_op(step, "Or") && use->fill == 0))) {
        for (uint32_t i = 0; i < 2; i++) ask_fill(w, input_of(step, i), use->fill);
    }
}

static void pass(Walk *w, const LoadedStep *step, const OpRecord *record) {
    static const InputUse any = INPUT_USE_ANY;
    const InputUse *use = step->plan->outputs.count && step->outputs[0] != PLAN_NONE
                              ? &w->uses[step->outputs[0]]
                              : &any;
    pass_moved(w, step, record);
    pass_angles(w, step, record);
    switch (record ? (OpAnswers)record->answers : ANSWERS_NOTHING) {
    case ANSWERS_NOTHING: break;
    case ANSWERS_SUM: pass_sum(w, step, use); break;
    case ANSWERS_PRODUCT: pass_product(w, step, use); break;
    case ANSWERS_COMPARISON: pass_comparison(w, step, use); break;
    case ANSWERS_CHOICE: pass_choice(w, step); break;
    case ANSWERS_LOGIC: pass_logic(w, step, use); break;
    }
}

/* ---- walking --------------------------------------------------------------------------------- */

static void walk_graph(Walk *w, uint32_t graph);

/* Bodies read what is outside by its own number; what is bound to their inputs follows the step's
 * by position, which is how Loop, Scan and SequenceMap have it; but a Loop's body gets the number of
 * the iteration where the node has how many there are. */
static void walk_bodies(Walk *w, const LoadedStep *step) {
    uint32_t first = is_op(step, "Loop") ? 1 : 0;
    for (uint32_t a = 0; a < step->plan->attrs.count; a++) {
        if (step->attrs[a].kind != PLAIN_GRAPH) continue;
        uint32_t number = step->attrs[a].v.graph;
        walk_graph(w, number);
        PlanSpan inputs = w->plan->graphs[number].inputs;
        for (uint32_t i = first; i < inputs.count && i < step->plan->inputs.count; i++)
            ask(w, step->inputs[i], w->uses[w->plan->operands[inputs.first + i]]);
    }
}

static void walk_graph(Walk *w, uint32_t graph) {
    PlanSpan steps = w->plan->graphs[graph].steps;
    if (w->visited[graph] || w->depth == DEPTH_MOST) return;
    w->visited[graph] = true;
    w->depth++;
    for (uint32_t s = steps.first + steps.count; s-- > steps.first;) {
        const LoadedStep *step = &w->loaded->steps[s];
        const OpRecord *record = record_of(step);
        size_t count;
        const OpInput *rows = op_inputs_find(step->domain, step->op, &count);
        for (size_t i = 0; i < count; i++) ask_row(w, step, &rows[i]);
        if (step->domain[0]) { /* ai.onnx.ml, or a product of demi's own */
            pass_angles(w, step, record);
            continue;
        }
        walk_bodies(w, step);
        pass(w, step, record);
    }
    w->depth--;
}

/* ---- names, where operators say nothing ------------------------------------------------------ */

static bool has_word(const char *name, const char *word) {
    size_t length = strlen(word);
    for (; *name; name++) {
        size_t i = 0;
        while (i < length && (name[i] | 32) == word[i]) i++;
        if (i == length) return true;
    }
    return false;
}

/* "attention_mask": 1, but what is true where there is padding: 0. */
static void settle_by_name(InputUse *use, const char *name, bool integer) {
    if (!integer || (use->kind != INPUT_ANY && use->kind != INPUT_RANGE)) return;
    if (has_word(name, "mask") && (use->kind == INPUT_ANY || use->high > 0)) {
        use->kind = INPUT_FILL;
        use->fill = has_word(name, "padding") || has_word(name, "pad") ? 0 : 1;
    } else if (has_word(name, "position") || has_word(name, "pos_id")) {
        use->kind = INPUT_ASCENDING;
    }
}

/* "lengths", one a row of another input: all of that. */
static void settle_lengths(const Walk *w, uint32_t value, const char *name, InputUse *use) {
    PlanSpan inputs = w->plan->graphs[0].inputs;
    bool named = has_word(name, "length") || has_word(name, "_len") || has_word(name, "lens");
    if (use->kind != INPUT_ANY || !named || w->plan->values[value].rank != 1) return;
    for (uint32_t i = 0; i < inputs.count; i++) {
        uint32_t other = w->plan->operands[inputs.first + i];
        uint32_t rank = w->plan->values[other].rank;
        if (rank == PLAN_NONE || rank < 2 || !bound(w, use, other, 1, 0)) continue;
        use->kind = INPUT_FILL;
        use->fill = INT32_MAX;
        return;
    }
}

/* A time step or place that angles are made of, as a float. */
static bool is_phase(const Walk *w, uint32_t value, const char *name) {
    bool named = has_word(name, "time") || has_word(name, "step") || has_word(name, "position");
    return w->angles[value] && (named || w->plan->values[value].rank <= 1);
}

static void settle(const Walk *w, uint32_t value, const char *name, InputUse *use) {
    bool integer = is_integer(w, value);
    *use = w->uses[value];
    if (integer && w->angles[value] && use->kind != INPUT_FILL) use->kind = INPUT_ASCENDING;
    /* What a float tensor is multiplied by or compared with says little: only that a mask is 1, and
     * what operators ask of a number or a list of them. */
    bool list = w->plan->values[value].rank <= 1;
    if (!integer && (use->kind != INPUT_FILL || (!list && use->fill != 1)))
        *use = (InputUse)INPUT_USE_ANY;
    if (!integer && is_phase(w, value, name)) {
        use->kind = INPUT_RANGE;
        use->low = 0;
        use->high = 999;
    }
    settle_by_name(use, name, integer);
    if (integer) settle_lengths(w, value, name, use);
    if (use->kind == INPUT_ANY && use->avoids) { /* a mask that is compared with 0 */
        use->kind = INPUT_FILL;
        use->fill = use->avoided == 0;
    }
}

InputUse *input_uses(const DemiPlan *plan, Arena *arena) {
    const LoadedPlan *loaded = demi_plan_loaded(plan);
    const Plan *view = &loaded->plan;
    size_t count = demi_plan_input_count(plan);
    Arena *tables = arena_child(arena);
    Walk w = {.loaded = loaded,
              .plan = view,
              .arena = arena,
              .uses = ARENA_ARRAY(tables, InputUse, view->value_count),
              .angles = ARENA_ARRAY(tables, bool, view->value_count),
              .known = ARENA_ARRAY(tables, double, view->value_count),
              .visited = ARENA_ARRAY(tables, bool, view->graph_count)};
    for (uint32_t i = 0; i < view->value_count; i++) w.uses[i] = (InputUse)INPUT_USE_ANY;
    find_known(&w);
    walk_graph(&w, 0);
    InputUse *found = ARENA_ARRAY(arena, InputUse, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = view->operands[view->graphs[0].inputs.first + i];
        settle(&w, value, plan_text(view, view->values[value].name, arena), &found[i]);
    }
    arena_free(tables);
    return found;
}

/* ---- of one step ----------------------------------------------------------------------------- */

static void mark_makers(const LoadedPlan *loaded, const char *name, bool *wanted) {
    bool found = false;
    for (uint32_t s = loaded->plan.step_count; s-- > 0;) {
        const LoadedStep *step = &loaded->steps[s];
        bool makes = !found && strcmp(step->name, name) == 0;
        found = found || makes;
        for (uint32_t k = 0; !makes && k < step->plan->outputs.count; k++)
            makes = step->outputs[k] != PLAN_NONE && wanted[step->outputs[k]];
        for (uint32_t i = 0; makes && i < step->plan->inputs.count; i++)
            if (step->inputs[i] != PLAN_NONE) wanted[step->inputs[i]] = true;
    }
}

size_t input_use_of_step(const DemiPlan *plan, const char *step, Arena *arena, size_t *inputs,
                         size_t most) {
    const LoadedPlan *loaded = demi_plan_loaded(plan);
    const Plan *view = &loaded->plan;
    bool *wanted = ARENA_ARRAY(arena, bool, view->value_count);
    size_t count = 0;
    mark_makers(loaded, step, wanted);
    for (int integers = 1; integers >= 0; integers--)
        for (uint32_t i = 0; i < view->graphs[0].inputs.count && count < most; i++) {
            uint32_t value = view->operands[view->graphs[0].inputs.first + i];
            Dtype dtype = (Dtype)view->values[value].dtype;
            bool integer = dtype_is_integer(dtype) || dtype == DTYPE_BOOL;
            if (wanted[value] && integer == (integers != 0)) inputs[count++] = i;
        }
    return count;
}
