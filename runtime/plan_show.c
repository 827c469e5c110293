// SPDX-License-Identifier: Apache-2.0
/* A plan as text, for people and golden tests: one line a value, step and attribute. Only checked
 * plans are shown, so indices need no look. Text of the file is escaped: a line stays a line. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attr_layout.h"
#include "place_declined.h"
#include "plan.h"
#include "real_text.h"
#include "escaped.h"
#include "step_place.h"

enum { SHOWN_ITEMS = 16 };

typedef struct Show {
    const Plan *plan;
    const PlanSink *sink;
    const StepPlacement *placed; /* NULL: all steps are the processor's */
    const char *const *declined; /* [step_count], where placed: place_declined's */
} Show;

static void put(Show *s, const char *text, size_t size) {
    s->sink->write(s->sink->data, text, size);
}

static void say(Show *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(Show *s, const char *format, ...) {
    char text[256]; /* numbers and names of ours */
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(s, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1);
}

/* Between quotes, with JSON's escapes of what is not printable. */
static void quote(Show *s, uint32_t text) {
    PlanSpan span = s->plan->texts[text];
    const char *chars = s->plan->chars + span.first;
    put(s, "\"", 1);
    for (size_t i = 0, size; i < span.count; i += size) {
        bool plain = escaped_plain(chars + i, span.count - i, &size);
        unsigned code = size > 1 ? utf8_code(chars + i, size) : (unsigned char)chars[i];
        if (!plain && size == 1 && code >= 0x80)
            say(s, "\\x%02x", code); /* no UTF-8 */
        else if (!plain)
            say(s, code <= 0xffff ? "\\u%04x" : "\\U%08x", code);
        else if (code == '"' || code == '\\')
            say(s, "\\%c", (char)code);
        else
            put(s, chars + i, size);
    }
    put(s, "\"", 1);
}

static void plain(Show *s, uint32_t text) {
    PlanSpan span = s->plan->texts[text];
    const char *chars = s->plan->chars + span.first;
    for (size_t i = 0, size; i < span.count;) {
        char shown[SHOWN_MOST];
        i += escaped_take(chars + i, span.count - i, shown, &size);
        put(s, shown, size);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

static void show_type(Show *s, const PlanValue *value) {
    static const char *const kinds[] = {[PLAN_TENSOR] = "",
                                        [PLAN_SEQUENCE] = "sequence of ",
                                        [PLAN_OPTIONAL] = "optional ",
                                        [PLAN_OPTIONAL_SEQUENCE] = "optional sequence of "};
    say(s, "%s%s", kinds[value->kind], dtype_name((Dtype)value->dtype));
    if (value->rank == PLAN_NONE) return;
    put(s, "[", 1);
    for (uint32_t i = 0; i < value->rank; i++) {
        int64_t dim = s->plan->numbers[value->dims + i];
        if (i) put(s, ",", 1);
        if (dim >= 0)
            say(s, "%" PRId64, dim);
        else if (dim == -1)
            put(s, "?", 1);
        else
            plain(s, (uint32_t)(-2 - dim));
    }
    put(s, "]", 1);
}

static void say_real(Show *s, double value) {
    char text[REAL_TEXT];
    put(s, text, real_format(text, 9, value));
}

static void show_number(Show *s, Dtype dtype, const unsigned char *at) {
    uint64_t bits = 0;
    double value = 0;
    unsigned size = (dtype_bits(dtype) + 7) / 8;
    memcpy(&bits, at, size < sizeof bits ? size : sizeof bits);
    if (dtype == DTYPE_INT64)
        say(s, "%" PRId64, (int64_t)bits);
    else if (dtype == DTYPE_UINT64)
        say(s, "%" PRIu64, bits);
    else if (dtype_to_double(dtype, bits, &value))
        say_real(s, value);
    else
        put(s, "?", 1); /* complex numbers */
}

/* How a constant is packed: the sizes that its elements have in their new order. What is beside it
 * stands first, with its place. */
static void show_packs(Show *s, uint32_t value) {
    static const char *const words[WEIGHT_WORD_COUNT] = {
        [WEIGHT_FLOATS] = "floats",           [WEIGHT_QUADS] = "quads of bytes",
        [WEIGHT_PAIRS] = "pairs of bytes",    [WEIGHT_TILES] = "tiles",
        [WEIGHT_LARGE_TILES] = "large tiles", [WEIGHT_BFLOATS] = "pairs of bfloat16"};
    size_t low = 0, high = s->plan->pack_count; /* behind the last of the value */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->plan->packs[middle].value <= value)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low && s->plan->packs[low - 1].value == value; low--) {
        const PlanPack *pack = &s->plan->packs[low - 1];
        const WeightLayout *l = &pack->layout;
        if (weight_layout_loses(l))
            say(s, ", with %" PRIu64 " bytes at %" PRIu64 " of", weight_layout_size(l), pack->data);
        else
            say(s, ", packed as");
        say(s,
            " %s, %u per vector, %" PRIu64 " groups of %" PRIu64 " taps, %" PRIu64 " deep, %" PRIu64
            " columns",
            words[l->word], l->lanes, l->groups, l->taps, l->depth, l->columns);
    }
}

/* All elements of a small constant, else its bytes. */
static void show_data(Show *s, const PlanValue *value) {
    const unsigned char *data = s->plan->data + value->data;
    Dtype dtype = plan_stored(value);
    size_t size = dtype == DTYPE_STRING ? sizeof(uint32_t) : (dtype_bits(dtype) + 7) / 8;
    uint64_t count = value->size / size;
    if (value->stored) say(s, ", stored as %s", dtype_name(dtype));
    show_packs(s, (uint32_t)(value - s->plan->values));
    if (value->packed) {
        say(s, " = %" PRIu64 " bytes at %" PRIu64, value->size, value->data);
        return;
    }
    if (count > SHOWN_ITEMS) {
        say(s, " = %" PRIu64 " bytes at %" PRIu64, value->size, value->data);
        return;
    }
    put(s, " = {", 4);
    for (uint64_t i = 0; i < count; i++) {
        if (i) put(s, ", ", 2);
        if (dtype != DTYPE_STRING) {
            show_number(s, dtype, data + i * size);
            continue;
        }
        quote(s, plan_data_text(s->plan, value, i));
    }
    put(s, "}", 1);
}

static void show_value(Show *s, uint32_t number) {
    const PlanValue *value = &s->plan->values[number];
    say(s, "    %%%u ", number);
    quote(s, value->name);
    put(s, " ", 1);
    show_type(s, value);
    if (value->data != PLAN_NO_DATA) show_data(s, value);
    put(s, "\n", 1);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void show_operands(Show *s, PlanSpan span) {
    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t value = s->plan->operands[span.first + i];
        if (i) put(s, ", ", 2);
        if (value == PLAN_NONE)
            put(s, "_", 1);
        else
            say(s, "%%%u", value);
    }
}

static void show_list(Show *s, const PlanAttr *attr) {
    uint32_t first = (uint32_t)attr->value;
    put(s, "[", 1);
    for (uint32_t i = 0; i < attr->count; i++) {
        if (i) put(s, ", ", 2);
        if (attr->kind == PLAIN_INTS)
            say(s, "%" PRId64, s->plan->numbers[first + i]);
        else if (attr->kind == PLAIN_FLOATS)
            say_real(s, (double)s->plan->floats[first + i]);
        else
            quote(s, s->plan->operands[first + i]);
    }
    put(s, "]", 1);
}

static void show_attr(Show *s, const PlanAttr *attr) {
    uint32_t bits = (uint32_t)attr->value;
    float real;
    put(s, "      ", 6);
    plain(s, attr->name);
    put(s, " = ", 3);
    switch ((PlainAttrKind)attr->kind) {
    case PLAIN_INT: say(s, "%" PRId64, attr->value); break;
    case PLAIN_FLOAT:
        memcpy(&real, &bits, sizeof real);
        say_real(s, (double)real);
        put(s, "f", 1);
        break;
    case PLAIN_TEXT: quote(s, bits); break;
    case PLAIN_INTS:
    case PLAIN_FLOATS:
    case PLAIN_TEXTS: show_list(s, attr); break;
    case PLAIN_TENSOR: say(s, "%%%u", bits); break;
    case PLAIN_GRAPH: say(s, "graph %u", bits); break;
    case PLAIN_KIND_COUNT: break;
    }
    put(s, "\n", 1);
}

/* The first of CHOICES that is of that step or behind it. */
static uint32_t first_choice(const Plan *plan, uint32_t step) {
    uint32_t low = 0, high = plan->choice_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (plan->choices[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void show_choices(Show *s, uint32_t step) {
    const Plan *plan = s->plan;
    for (uint32_t i = first_choice(plan, step); i < plan->choice_count; i++) {
        const PlanChoice *choice = &plan->choices[i];
        if (choice->step != step) break;
        say(s, "      chosen for %016" PRIx64 ":", choice->shapes);
        if (choice->row) say(s, " kernel %u, choice %u", choice->row - 1U, choice->choice);
        if (choice->row && choice->alone) put(s, ",", 1);
        if (choice->alone) say(s, " one thread");
        put(s, "\n", 1);
    }
}

/* Where the step runs, and why not on the device. */
static void show_place(Show *s, uint32_t number) {
    const PlaceReason reason = s->placed->reasons[number];
    if (s->declined[number])
        say(s, " ; CPU: declined, because %s", s->declined[number]);
    else if (reason == PLACE_DEVICE)
        say(s, " ; device");
    else if (reason != PLACE_COPY)
        say(s, " ; CPU: %s", place_reason(reason));
}

static void show_step(Show *s, uint32_t number) {
    const PlanStep *step = &s->plan->steps[number];
    const PlanOp *op = &s->plan->ops[step->op];
    put(s, "    ", 4);
    show_operands(s, step->outputs);
    put(s, step->outputs.count ? " = " : "", step->outputs.count ? 3 : 0);
    if (s->plan->texts[op->domain].count) {
        plain(s, op->domain);
        put(s, ".", 1);
    }
    plain(s, op->name);
    say(s, "-%" PRId64 "(", op->opset);
    show_operands(s, step->inputs);
    put(s, ") ", 2);
    quote(s, step->name);
    if (s->placed) show_place(s, number);
    put(s, "\n", 1);
    for (uint32_t i = 0; i < step->attrs.count; i++)
        show_attr(s, &s->plan->attrs[step->attrs.first + i]);
    show_choices(s, number);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void show_graph(Show *s, uint32_t number) {
    const PlanGraph *graph = &s->plan->graphs[number];
    say(s, "graph %u ", number);
    quote(s, graph->name);
    put(s, " (", 2);
    show_operands(s, graph->inputs);
    put(s, ") => (", 6);
    show_operands(s, graph->outputs);
    put(s, ")\n", 2);
    for (uint32_t i = 0; i < graph->defaults.count; i++) {
        uint32_t value = s->plan->operands[graph->defaults.first + i];
        if (value == PLAN_NONE) continue;
        say(s, "    default of %%%u: %%%u\n", s->plan->operands[graph->inputs.first + i], value);
    }
    for (uint32_t i = 0; i < graph->steps.count; i++) show_step(s, graph->steps.first + i);
}

static void show_places(Show *s) {
    uint32_t counts[PLACE_REASON_COUNT] = {0}, copies = 0, elsewhere = 0, declined = 0;
    for (uint32_t i = 0; i < s->plan->step_count; i++) {
        counts[s->placed->reasons[i]]++;
        declined += s->declined[i] != NULL;
    }
    counts[PLACE_DEVICE] -= declined;
    copies = counts[PLACE_COPY];
    elsewhere = s->plan->step_count - counts[PLACE_DEVICE] - copies;
    say(s, "placement: %u steps on the device, %u on the CPU, %u copies; %s\n",
        counts[PLACE_DEVICE], elsewhere, copies,
        s->placed->repeats && !declined ? "replayed from a recording"
                                        : "not recorded, because what the CPU computes may differ");
    for (uint32_t i = 0; i < PLACE_REASON_COUNT; i++)
        if (counts[i] && i != PLACE_DEVICE && i != PLACE_COPY)
            say(s, "    CPU: %u steps: %s\n", counts[i], place_reason((PlaceReason)i));
    if (declined)
        say(s, "    CPU: %u steps: declined by the device's kernels, with copies in each run\n",
            declined);
}

static void show_plan(Show *show) {
    Show s = *show;
    const Plan *plan = s.plan;
    const PlanHeader *header = plan->header;
    say(&s,
        "plan version %u, %s%s, %u values, %u steps, %u graphs, %" PRIu64 " bytes of constants\n",
        header->version, header->numerics == PLAN_FAITHFUL ? "faithful" : "fast",
        header->small ? ", small" : "", plan->value_count, plan->step_count, plan->graph_count,
        header->sections[PLAN_DATA].count);
    uint32_t beside = 0;
    for (uint32_t i = 0; i < plan->pack_count; i++)
        beside += weight_layout_loses(&plan->packs[i].layout);
    if (plan->pack_count)
        say(&s, "weights packed for %s: %u", plan_isa_name((PlanIsa)header->isa),
            plan->pack_count - beside);
    if (beside) say(&s, ", %u of them also for Winograd", beside);
    if (plan->pack_count) put(&s, "\n", 1);
    if (plan->choice_count)
        say(&s, "tuned on %s for %u threads: %u choices\n", plan_isa_name((PlanIsa)header->tuned),
            header->threads, plan->choice_count);
    if (header->source[0] || header->source[1])
        say(&s, "source %016" PRIx64 "%016" PRIx64 "\n", header->source[0], header->source[1]);
    if (s.placed) show_places(&s);
    put(&s, "values\n", 7);
    for (uint32_t i = 0; i < plan->value_count; i++) show_value(&s, i);
    for (uint32_t i = 0; i < plan->graph_count; i++) show_graph(&s, i);
}

void plan_show(const Plan *plan, const PlanSink *sink) {
    show_plan(&(Show){.plan = plan, .sink = sink});
}

void plan_show_placed(const Plan *plan, const DeviceKind *kind, const PlanSink *sink,
                      Arena *arena) {
    StepPlacement placed;
    step_place(plan, kind, &placed, arena);
    show_plan(&(Show){.plan = &placed.plan,
                      .sink = sink,
                      .placed = &placed,
                      .declined = place_declined(&placed, kind, arena)});
}
