// SPDX-License-Identifier: Apache-2.0
/* Fewer Reshapes and Transposes for many; see merge_moves.h.
 *
 * What the first of them reads is cut into atoms: the largest pieces of its axes that all of the row
 * keep together. The row moves atoms, and groups them to axes; axes of one element are of no atom. What
 * it comes to is an order of atoms and a grouping, and that is written down anew. An axis whose size is a
 * name is one atom. */
#include "merge_moves.h"

#include "fuse_graph.h"
#include "op_facts.h"
#include "simplify_graph.h"

enum { MOST = 32, MOST_NODES = 16, SINCE = 5, NONE = 255 };

typedef struct Atom {
    Dim dim;
    uint32_t axis; /* of the source */
    uint32_t next; /* atom behind it in the source, or NONE */
    uint32_t place;
} Atom;

/* An order of atoms, and the axis that each of them belongs to. */
typedef struct Moves {
    PassCtx *ctx;
    Value *source, *result;
    Atom atoms[MOST];
    uint32_t view[MOST], axis[MOST];
    uint32_t count;  /* of atoms */
    bool has_symbol; /* one of them is a name */
} Moves;

/* Axes of a value, by the atoms of which each consists. */
typedef struct Axes {
    Dim dims[MOST];
    uint32_t count;
} Axes;

/* ---- the row --------------------------------------------------------------------------------- */

static bool is_reshape(const Node *node) {
    return op_record_has(fuse_record(node), OP_IN_ORDER) && node_schema(node) &&
           op_has_flags(node_schema(node), OP_KEEPS_COUNT);
}

static bool is_move(const Node *node) {
    return node && fuse_record(node) && fuse_input(node, 0) && node->output_count == 1 &&
           (simplify_is(node, "Transpose") || is_reshape(node));
}

/* The nodes of the row that `last` ends, the first of them first; 0 where it goes on behind it. */
static uint32_t list_row(Node *last, Node **row) {
    uint32_t count = 0;
    if (!is_move(last) || is_move(fuse_reader(last->outputs[0]))) return 0;
    for (Node *node = last; count < MOST_NODES && is_move(node);
         node = node->inputs[0].value->producer) {
        if (count && fuse_reader(node->outputs[0]) != row[count - 1]) break;
        row[count++] = node;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        Node *other = row[i];
        row[i] = row[count - 1 - i];
        row[count - 1 - i] = other;
    }
    return count;
}

/* ---- atoms ----------------------------------------------------------------------------------- */

static bool is_one(const Dim *dim) {
    return dim->kind == DIM_KNOWN && dim->size == 1;
}

static bool cut_source(Moves *moves) {
    const Type *type = value_shaped_type(moves->source);
    if (!type || type->rank > MOST) return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        if (is_one(dim)) continue;
        if (dim->kind == DIM_UNKNOWN || (dim->kind == DIM_KNOWN && dim->size < 1)) return false;
        moves->has_symbol = moves->has_symbol || dim->kind == DIM_SYMBOL;
        const uint32_t at = moves->count++;
        moves->atoms[at] = (Atom){.dim = *dim, .axis = i, .next = NONE};
        if (at) moves->atoms[at - 1].next = at;
        moves->view[at] = at;
        moves->axis[at] = i;
    }
    return true;
}

static bool transpose(Moves *moves, const Node *node) {
    uint32_t rank, view[MOST], count = 0;
    const int64_t *order = attr_ints(node_attr(node, "perm"), &rank);
    if (!order || fuse_rank(node->inputs[0].value) != (int64_t)rank) return false;
    uint32_t axis[MOST];
    for (uint32_t i = 0; i < rank; i++)
        for (uint32_t k = 0; k < moves->count; k++) {
            if (moves->axis[k] != order[i]) continue;
            view[count] = moves->view[k];
            axis[count++] = i;
        }
    for (uint32_t i = 0; i < count; i++) {
        moves->view[i] = view[i];
        moves->axis[i] = axis[i];
    }
    return count == moves->count;
}

/* The atom at that place of the view becomes two, the first of that size. */
static bool split(Moves *moves, uint32_t at, int64_t size) {
    if (moves->count == MOST) return false;
    const uint32_t made = moves->count++;
    Atom *atom = &moves->atoms[moves->view[at]];
    moves->atoms[made] = *atom;
    moves->atoms[made].dim.size = atom->dim.size / size;
    atom->dim.size = size;
    atom->next = made;
    for (uint32_t i = made; i > at + 1; i--) moves->view[i] = moves->view[i - 1];
    moves->view[at + 1] = made;
    return true;
}

/* Takes atoms from *at on for an axis of a known size. */
static bool take_known(Moves *moves, uint32_t axis, int64_t size, uint32_t *at) {
    while (size > 1) {
        if (*at == moves->count) return false;
        const Dim *dim = &moves->atoms[moves->view[*at]].dim;
        if (dim->kind != DIM_KNOWN) return false;
        const int64_t have = dim->size;
        if (size % have != 0 && (have % size != 0 || !split(moves, *at, size))) return false;
        moves->axis[(*at)++] = axis;
        size = size % have == 0 ? size / have : 1;
    }
    return size == 1;
}

/* A size that is not known is the only name there is, if all others are what they were. */
static bool take_open(Moves *moves, uint32_t axis, const Dim *dim, bool *guessed, uint32_t *at) {
    const Dim *atom = *at < moves->count ? &moves->atoms[moves->view[*at]].dim : NULL;
    uint32_t symbols = 0;
    if (!atom || atom->kind != DIM_SYMBOL) return false;
    for (uint32_t i = 0; i < moves->count; i++) symbols += moves->atoms[i].dim.kind == DIM_SYMBOL;
    if (!dim_same(atom, dim)) {
        if (*guessed || symbols > 1) return false;
        *guessed = true;
    }
    moves->axis[(*at)++] = axis;
    return true;
}

static bool reshape(Moves *moves, const Node *node) {
    const Type *type = value_shaped_type(node->outputs[0]);
    bool guessed = false;
    uint32_t at = 0;
    if (!type || type->rank > MOST) return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        if (dim->kind == DIM_KNOWN ? !take_known(moves, i, dim->size, &at)
                                   : !take_open(moves, i, dim, &guessed, &at))
            return false;
    }
    return at == moves->count;
}

static void number_places(Moves *moves) {
    uint32_t place = 0;
    for (uint32_t i = moves->count ? 0 : NONE; i != NONE; i = moves->atoms[i].next)
        moves->atoms[i].place = place++;
}

/* ---- what they come to ----------------------------------------------------------------------- */

static const Atom *atom_at(const Moves *moves, uint32_t i) {
    return &moves->atoms[moves->view[i]];
}

static bool follows(const Moves *moves, uint32_t i) {
    return i > 0 && atom_at(moves, i)->place == atom_at(moves, i - 1)->place + 1;
}

static bool is_in_order(const Moves *moves) {
    for (uint32_t i = 1; i < moves->count; i++)
        if (!follows(moves, i)) return false;
    return true;
}

static bool begins_axis(const Moves *moves, const Atom *atom) {
    for (uint32_t i = 0; i < moves->count; i++)
        if (moves->atoms[i].axis == atom->axis && moves->atoms[i].place < atom->place) return false;
    return true;
}

/* True where the source's axes move as they are. */
static bool keeps_axes(const Moves *moves) {
    for (uint32_t i = 0; i < moves->count; i++)
        if (!begins_axis(moves, atom_at(moves, i)) &&
            !(follows(moves, i) && atom_at(moves, i)->axis == atom_at(moves, i - 1)->axis))
            return false;
    return true;
}

/* True where each of the result's axes is a piece of the source. */
static bool gives_axes(const Moves *moves) {
    for (uint32_t i = 1; i < moves->count; i++)
        if (moves->axis[i] == moves->axis[i - 1] && !follows(moves, i)) return false;
    return true;
}

/* ---- writing it down ------------------------------------------------------------------------- */

/* The shape of a Reshape from one list of axes to another: 0 where an open size stays in its place, or
 * else -1 for a single one. False where that does not say it. */
static bool shape_numbers(const Axes *from, const Axes *to, int64_t *numbers) {
    uint32_t copied = 0, open = 0;
    for (uint32_t i = 0; i < to->count; i++) {
        const Dim *dim = &to->dims[i];
        const bool same = i < from->count && dim_same(&from->dims[i], dim);
        numbers[i] = dim->kind == DIM_KNOWN ? dim->size : same ? 0 : -1;
        copied += numbers[i] == 0;
        open += numbers[i] == -1;
    }
    return open == 0 || (open == 1 && copied == 0);
}

static Node *put(const Moves *moves, Node *at, const char *op, Value *x, const Axes *axes) {
    Arena *arena = &moves->ctx->model->arena;
    Node *node = node_new(at->graph, at, sym_intern_cstr(&moves->ctx->model->syms, op), NULL);
    Dim *dims = ARENA_ARRAY(arena, Dim, axes->count + 1);
    for (uint32_t i = 0; i < axes->count; i++) dims[i] = axes->dims[i];
    Value *value = value_new(at->graph, sym_fresh(&moves->ctx->model->syms, node_label(at)));
    value_set_type(value,
                   type_new_shaped(arena, type_dtype(moves->source->type), dims, axes->count));
    node_resize_inputs(node, 1);
    node_resize_outputs(node, 1);
    node_set_input(node, 0, x);
    node_set_output(node, 0, value);
    return node;
}

static Node *put_reshape(const Moves *moves, Node *at, Value *x, const Axes *axes,
                         const int64_t *numbers) {
    Fuse fuse = {.ctx = moves->ctx};
    Node *node = put(moves, at, "Reshape", x, axes);
    node_resize_inputs(node, 2);
    node_set_input(node, 1, fuse_new_ints(&fuse, at->graph, numbers, axes->count));
    return node;
}

static Node *put_transpose(const Moves *moves, Node *at, Value *x, const Axes *axes,
                           const int64_t *order) {
    Node *node = put(moves, at, "Transpose", x, axes);
    node_set_attr_ints(node, "perm", order, axes->count);
    return node;
}

/* How the row is written: a Reshape to `cut` or none, a Transpose to `moved` or none, and a Reshape to
 * the result's axes or none. */
typedef struct Plan {
    Axes source, cut, moved, result;
    int64_t order[MOST];
    int64_t cut_numbers[MOST], numbers[MOST];
    bool cuts, moves, shapes;
} Plan;

static void axes_of(const Value *value, Axes *axes) {
    const Type *type = value_shaped_type(value);
    axes->count = type->rank;
    for (uint32_t i = 0; i < type->rank; i++) axes->dims[i] = type->dims[i];
}

static bool same_axes(const Axes *a, const Axes *b) {
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++) same = dim_same(&a->dims[i], &b->dims[i]);
    return same;
}

/* The source's axes in their new order, those of one element first. */
static void move_axes(const Moves *moves, Plan *plan) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->source.count; i++)
        if (is_one(&plan->source.dims[i])) plan->order[count++] = i;
    for (uint32_t i = 0; i < moves->count; i++)
        if (begins_axis(moves, atom_at(moves, i))) plan->order[count++] = atom_at(moves, i)->axis;
    plan->cut = plan->source;
}

/* Axes of one element go where the result has them, where it then has all of its axes. */
static void match_ones(const Moves *moves, Plan *plan) {
    int64_t order[MOST];
    uint32_t one = 0, k = 0;
    if (plan->result.count != plan->source.count) return;
    for (uint32_t i = 0; i < plan->result.count; i++) {
        if (is_one(&plan->result.dims[i])) {
            while (one < plan->source.count && !is_one(&plan->source.dims[one])) one++;
            if (one == plan->source.count) return;
            order[i] = one++;
        } else {
            while (k < moves->count && !begins_axis(moves, atom_at(moves, k))) k++;
            if (k == moves->count) return;
            order[i] = atom_at(moves, k++)->axis;
        }
    }
    for (uint32_t i = 0; i < plan->result.count; i++)
        if (!dim_same(&plan->source.dims[order[i]], &plan->result.dims[i])) return;
    for (uint32_t i = 0; i < plan->result.count; i++) plan->order[i] = order[i];
}

/* The pieces of the view from i on that begin anew where `pieces` says so: their places, sorted. */
typedef struct Piece {
    Dim dim;
    uint32_t place, at; /* in the source; in what the Transpose gives */
} Piece;

static void sort_pieces(Piece *pieces, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && pieces[k].place < pieces[k - 1].place; k--) {
            Piece piece = pieces[k];
            pieces[k] = pieces[k - 1];
            pieces[k - 1] = piece;
        }
}

static void cut_pieces(Plan *plan, Piece *pieces, uint32_t count) {
    sort_pieces(pieces, count);
    plan->cut.count = plan->moved.count = count;
    for (uint32_t i = 0; i < count; i++) {
        plan->cut.dims[i] = pieces[i].dim;
        plan->order[pieces[i].at] = i;
    }
}

/* The result's axes in the source's order, those of one element first. */
static void cut_to_result(const Moves *moves, Plan *plan) {
    Piece pieces[MOST];
    for (uint32_t i = 0; i < plan->result.count; i++)
        pieces[i] = (Piece){plan->result.dims[i], 0, i};
    for (uint32_t i = moves->count; i-- > 0;)
        pieces[moves->axis[i]].place = atom_at(moves, i)->place + 1;
    cut_pieces(plan, pieces, plan->result.count);
}

/* What stays together all the way. */
static void cut_to_blocks(const Moves *moves, Plan *plan) {
    Piece pieces[MOST];
    uint32_t count = 0;
    for (uint32_t i = 0; i < moves->count; i++) {
        const Atom *atom = atom_at(moves, i);
        const bool known = atom->dim.kind == DIM_KNOWN;
        if (follows(moves, i) && known && pieces[count - 1].dim.kind == DIM_KNOWN)
            pieces[count - 1].dim.size *= atom->dim.size;
        else
            pieces[count] = (Piece){atom->dim, atom->place, count}, count++;
    }
    cut_pieces(plan, pieces, count);
}

static void find_plan(const Moves *moves, Plan *plan) {
    axes_of(moves->source, &plan->source);
    axes_of(moves->result, &plan->result);
    plan->moves = !is_in_order(moves);
    if (!plan->moves) {
        plan->cut = plan->moved = plan->source;
    } else if (keeps_axes(moves)) {
        move_axes(moves, plan);
        match_ones(moves, plan);
    } else if (gives_axes(moves)) {
        cut_to_result(moves, plan);
    } else {
        cut_to_blocks(moves, plan);
    }
    if (plan->moves) {
        plan->moved.count = plan->cut.count;
        for (uint32_t i = 0; i < plan->cut.count; i++)
            plan->moved.dims[i] = plan->cut.dims[plan->order[i]];
    }
    plan->cuts = !same_axes(&plan->source, &plan->cut);
    plan->shapes = !same_axes(&plan->moved, &plan->result);
}

static Value *write_down(const Moves *moves, const Plan *plan, Node *at) {
    Value *x = moves->source;
    if (plan->cuts) x = put_reshape(moves, at, x, &plan->cut, plan->cut_numbers)->outputs[0];
    if (plan->moves) x = put_transpose(moves, at, x, &plan->moved, plan->order)->outputs[0];
    if (plan->shapes) x = put_reshape(moves, at, x, &plan->result, plan->numbers)->outputs[0];
    return x;
}

/* ---- the question ---------------------------------------------------------------------------- */

static bool follow_row(Moves *moves, Node *const *row, uint32_t count) {
    if (!cut_source(moves)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (simplify_is(row[i], "Transpose") ? !transpose(moves, row[i]) : !reshape(moves, row[i]))
            return false;
    number_places(moves);
    return value_shaped_type(moves->result) && value_shaped_type(moves->result)->rank <= MOST;
}

/* What the last node gave is given by `made`'s node, by its names and with its type. */
static void replace(Node *const *row, uint32_t count, Value *made) {
    Value *result = row[count - 1]->outputs[0];
    Node *node = made->producer;
    node_set_output(row[count - 1], 0, NULL);
    node_set_output(node, 0, result);
    node->name = row[count - 1]->name;
    for (uint32_t i = count; i-- > 0;) node_remove_unswept(row[i]);
}

/* Rows of Reshapes alone are merged one by one, with the shapes that there are, where one ends them. */
static bool is_of_both(Node *const *row, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (simplify_is(row[i], "Transpose")) return true;
    return !simplify_is(row[count - 1], "Reshape");
}

bool moves_merge(PassCtx *ctx, Node *last) {
    Node *row[MOST_NODES];
    const uint32_t count = list_row(last, row);
    if (count < 2 || !is_of_both(row, count) || fuse_opset(last) < SINCE ||
        !model_has_free_initializers(ctx->model))
        return false;
    Moves moves = {
        .ctx = ctx, .source = row[0]->inputs[0].value, .result = last->outputs[0], .count = 0};
    Plan plan = {0};
    if (!follow_row(&moves, row, count)) return false;
    find_plan(&moves, &plan);
    const uint32_t needed = (uint32_t)plan.cuts + plan.moves + plan.shapes;
    if (needed == 0 || needed >= count ||
        (plan.cuts && !shape_numbers(&plan.source, &plan.cut, plan.cut_numbers)) ||
        (plan.shapes && !shape_numbers(&plan.moved, &plan.result, plan.numbers)))
        return false;
    replace(row, count, write_down(&moves, &plan, last));
    ctx->counts->rewrites++;
    return true;
}
