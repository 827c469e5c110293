// SPDX-License-Identifier: Apache-2.0
/* ai.onnx.ml: tree ensembles in both encodings: TreeEnsembleClassifier and TreeEnsembleRegressor
 * name nodes by tree and number, TreeEnsemble by position. Both become one array of nodes whose
 * children are positions; every position is checked, and a walk that is longer than there are nodes
 * fails, so that no input can loop. */
#include <math.h>
#include <string.h>

#include "kernel_functions.h"
#include "kernel_ml.h"
#include "kernel_order.h"

typedef enum TreeMode {
    TREE_LEQ,
    TREE_LT,
    TREE_GTE,
    TREE_GT,
    TREE_EQ,
    TREE_NEQ,
    TREE_MEMBER,
    TREE_LEAF
} TreeMode;
static const char *const mode_names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

/* ---- the forest ------------------------------------------------------------------------------ */

typedef struct TreeNode {
    double split;
    uint64_t feature, yes, no;
    uint64_t first, count; /* LEAF: its votes; MEMBER: its members */
    TreeMode mode;
    bool missing_yes;
} TreeNode;

typedef struct TreeVote {
    uint64_t target;
    double weight;
} TreeVote;

typedef struct Forest {
    KernelCall *call;
    const TreeAttrs *attrs;
    TreeNode *nodes;
    TreeVote *votes;
    uint64_t *roots;
    uint64_t count, vote_count, root_count, targets, features;
    KernelPace *pace;
} Forest;

static double number_of(const AttrTensor *tensor, const AttrFloats *floats, uint64_t i) {
    if (tensor->data) return kernel_number(tensor->data, i);
    return floats->present ? (double)floats->items[i] : 0;
}

static uint64_t length_of(const AttrTensor *tensor, const AttrFloats *floats) {
    return tensor->data ? tensor->data->count : floats->count;
}

static bool length_is(KernelCall *call, const char *what, uint64_t count, uint64_t wanted) {
    return count == wanted || kernel_fail(call, "%s has %llu items, not %llu", what,
                                          (unsigned long long)count, (unsigned long long)wanted);
}

static bool numeric(KernelCall *call, const AttrTensor *tensor) {
    return !tensor->data || (KERNEL_NUMBERS >> tensor->data->dtype & 1) ||
           tensor->data->dtype == DTYPE_FLOAT16 ||
           kernel_fail(call, "an attribute holds %s", dtype_name(tensor->data->dtype));
}

/* What both encodings have in common. */
static bool set_node(Forest *f, uint64_t i) {
    const TreeAttrs *attrs = f->attrs;
    TreeNode *node = &f->nodes[i];
    int64_t feature = attrs->features.items[i];
    node->split = number_of(&attrs->splits_tensor, &attrs->splits, i);
    node->missing_yes = attrs->missing_yes.count && attrs->missing_yes.items[i] != 0;
    if (node->mode == TREE_LEAF) return true;
    if (feature < 0 || (uint64_t)feature >= f->features)
        return kernel_fail(f->call, "node %llu looks at feature %lld of %llu",
                           (unsigned long long)i, (long long)feature,
                           (unsigned long long)f->features);
    node->feature = (uint64_t)feature;
    return true;
}

static bool set_vote(Forest *f, uint64_t i, uint64_t place) {
    const TreeAttrs *attrs = f->attrs;
    int64_t target = attrs->vote_targets.items[i];
    if (target < 0 || (uint64_t)target >= f->targets)
        return kernel_fail(f->call, "a leaf votes for target %lld of %llu", (long long)target,
                           (unsigned long long)f->targets);
    f->votes[place] =
        (TreeVote){(uint64_t)target, number_of(&attrs->weights_tensor, &attrs->vote_weights, i)};
    return true;
}

/* ---- nodes by name --------------------------------------------------------------------------- */

/* Names of nodes, as they come; a place among them. */
typedef struct Names {
    const int64_t *trees, *nodes;
    const uint64_t *order;
    uint64_t count;
} Names;

static int compare_names(const void *context, uint64_t a, uint64_t b) {
    const Names *names = context;
    if (names->trees[a] != names->trees[b]) return names->trees[a] < names->trees[b] ? -1 : 1;
    return (names->nodes[a] > names->nodes[b]) - (names->nodes[a] < names->nodes[b]);
}

static bool find_node(KernelCall *call, const Names *names, const int64_t name[2],
                      uint64_t *place) {
    uint64_t low = 0, high = names->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2, at = names->order[middle];
        bool less =
            names->trees[at] != name[0] ? names->trees[at] < name[0] : names->nodes[at] < name[1];
        if (less)
            low = middle + 1;
        else
            high = middle;
    }
    *place = low < names->count ? names->order[low] : 0;
    bool found =
        low < names->count && names->trees[*place] == name[0] && names->nodes[*place] == name[1];
    return found ||
           kernel_fail(call, "tree %lld has no node %lld", (long long)name[0], (long long)name[1]);
}

static bool read_mode(Forest *f, uint64_t i) {
    AttrText text = f->attrs->modes.items[i];
    for (int k = TREE_LEQ; k <= TREE_LEAF; k++)
        if (k != TREE_MEMBER && strlen(mode_names[k]) == text.size &&
            memcmp(mode_names[k], text.text, text.size) == 0) {
            f->nodes[i].mode = (TreeMode)k;
            return true;
        }
    return kernel_fail(f->call, "node %llu has an unknown mode", (unsigned long long)i);
}

/* Votes ordered by node: each node gets its range. */
static bool read_votes(Forest *f, const Names *names) {
    const TreeAttrs *attrs = f->attrs;
    uint64_t *node = ARENA_ARRAY(f->call->scratch, uint64_t, f->vote_count), at = 0;
    for (uint64_t i = 0; i < f->vote_count; i++) {
        const int64_t name[] = {attrs->vote_trees.items[i], attrs->vote_nodes.items[i]};
        if (!find_node(f->call, names, name, &node[i])) return false;
        f->nodes[node[i]].count++;
    }
    for (uint64_t i = 0; i < f->count; i++) {
        f->nodes[i].first = at;
        at += f->nodes[i].count;
        f->nodes[i].count = 0;
    }
    for (uint64_t i = 0; i < f->vote_count; i++) {
        TreeNode *to = &f->nodes[node[i]];
        if (!set_vote(f, i, to->first + to->count++)) return false;
    }
    return true;
}

static bool named_lengths(Forest *f) {
    const TreeAttrs *attrs = f->attrs;
    KernelCall *call = f->call;
    uint64_t n = f->count, v = f->vote_count;
    return length_is(call, "nodes_nodeids", attrs->nodes.count, n) &&
           length_is(call, "nodes_featureids", attrs->features.count, n) &&
           length_is(call, "nodes_truenodeids", attrs->yes.count, n) &&
           length_is(call, "nodes_falsenodeids", attrs->no.count, n) &&
           length_is(call, "nodes_modes", attrs->modes.count, n) &&
           length_is(call, "the thresholds", length_of(&attrs->splits_tensor, &attrs->splits), n) &&
           (!attrs->missing_yes.count ||
            length_is(call, "nodes_missing_value_tracks_true", attrs->missing_yes.count, n)) &&
           length_is(call, "the leaves' trees", attrs->vote_trees.count, v) &&
           length_is(call, "the leaves' nodes", attrs->vote_nodes.count, v) &&
           length_is(call, "the weights", length_of(&attrs->weights_tensor, &attrs->vote_weights),
                     v) &&
           numeric(call, &attrs->splits_tensor) && numeric(call, &attrs->weights_tensor) &&
           numeric(call, &attrs->base_tensor);
}

/* The root of a tree is the first of its nodes. */
static void find_roots(Forest *f, const Names *names) {
    f->roots = ARENA_ARRAY(f->call->scratch, uint64_t, f->count);
    for (uint64_t i = 0; i < f->count; i++) {
        uint64_t at = names->order[i];
        bool fresh = i == 0 || names->trees[names->order[i - 1]] != names->trees[at];
        if (fresh)
            f->roots[f->root_count++] = at;
        else if (at < f->roots[f->root_count - 1])
            f->roots[f->root_count - 1] = at;
    }
}

static bool read_named(Forest *f) {
    const TreeAttrs *attrs = f->attrs;
    f->count = attrs->trees.count;
    f->vote_count = attrs->vote_targets.count;
    if (!named_lengths(f)) return false;
    f->nodes = ARENA_ARRAY(f->call->scratch, TreeNode, f->count);
    f->votes = ARENA_ARRAY(f->call->scratch, TreeVote, f->vote_count);
    Names names = {attrs->trees.items, attrs->nodes.items, NULL, f->count};
    names.order = order_sort(f->call, f->count, compare_names, &names);
    for (uint64_t i = 0; i < f->count; i++) {
        TreeNode *node = &f->nodes[i];
        const int64_t yes[] = {attrs->trees.items[i], attrs->yes.items[i]};
        const int64_t no[] = {attrs->trees.items[i], attrs->no.items[i]};
        if (!read_mode(f, i) || !set_node(f, i)) return false;
        if (node->mode != TREE_LEAF && (!find_node(f->call, &names, yes, &node->yes) ||
                                        !find_node(f->call, &names, no, &node->no)))
            return false;
    }
    find_roots(f, &names);
    return read_votes(f, &names);
}

/* ---- nodes by position ----------------------------------------------------------------------- */

static bool child_of(Forest *f, int64_t id, bool leaf, uint64_t *child) {
    uint64_t inner = f->attrs->features.count, most = leaf ? f->vote_count : inner;
    if (id < 0 || (uint64_t)id >= most)
        return kernel_fail(f->call, "there is no %s %lld", leaf ? "leaf" : "node", (long long)id);
    *child = leaf ? inner + (uint64_t)id : (uint64_t)id;
    return true;
}

/* Members of the sets come in the order of their nodes, each set ended by a NaN. */
static bool read_members(Forest *f) {
    const KernelTensor *members = f->attrs->members.data;
    uint64_t at = 0, total = members ? members->count : 0;
    for (uint64_t i = 0; i < f->attrs->features.count; i++) {
        TreeNode *node = &f->nodes[i];
        if (node->mode != TREE_MEMBER) continue;
        if (at == total) return kernel_fail(f->call, "sets of members are missing");
        for (node->first = at; at < total; at++) {
            double member = kernel_number(members, at);
            if (member != member) break;
        }
        node->count = at - node->first;
        if (at < total) at++;
    }
    return true;
}

static bool placed_lengths(Forest *f) {
    const TreeAttrs *attrs = f->attrs;
    KernelCall *call = f->call;
    const AttrFloats none = {0};
    uint64_t n = attrs->features.count;
    return length_is(call, "nodes_truenodeids", attrs->yes.count, n) &&
           length_is(call, "nodes_falsenodeids", attrs->no.count, n) &&
           length_is(call, "nodes_trueleafs", attrs->yes_leaf.count, n) &&
           length_is(call, "nodes_falseleafs", attrs->no_leaf.count, n) &&
           length_is(call, "nodes_modes", length_of(&attrs->modes_tensor, &none), n) &&
           length_is(call, "nodes_splits", length_of(&attrs->splits_tensor, &none), n) &&
           (!attrs->missing_yes.count ||
            length_is(call, "nodes_missing_value_tracks_true", attrs->missing_yes.count, n)) &&
           length_is(call, "leaf_weights", length_of(&attrs->weights_tensor, &none),
                     attrs->vote_targets.count) &&
           numeric(call, &attrs->modes_tensor) && numeric(call, &attrs->splits_tensor) &&
           numeric(call, &attrs->members) && numeric(call, &attrs->weights_tensor);
}

static bool read_placed(Forest *f) {
    const TreeAttrs *attrs = f->attrs;
    uint64_t inner = attrs->features.count;
    f->vote_count = attrs->vote_targets.count;
    f->count = inner + f->vote_count;
    f->root_count = attrs->roots.count;
    if (!placed_lengths(f)) return false;
    f->nodes = ARENA_ARRAY(f->call->scratch, TreeNode, f->count);
    f->votes = ARENA_ARRAY(f->call->scratch, TreeVote, f->vote_count);
    f->roots = ARENA_ARRAY(f->call->scratch, uint64_t, f->root_count);
    for (uint64_t i = 0; i < inner; i++) {
        TreeNode *node = &f->nodes[i];
        double mode = kernel_number(attrs->modes_tensor.data, i);
        if (!(mode >= TREE_LEQ && mode <= TREE_MEMBER))
            return kernel_fail(f->call, "node %llu has an unknown mode", (unsigned long long)i);
        node->mode = (TreeMode)mode;
        if (!set_node(f, i) ||
            !child_of(f, attrs->yes.items[i], attrs->yes_leaf.items[i] != 0, &node->yes) ||
            !child_of(f, attrs->no.items[i], attrs->no_leaf.items[i] != 0, &node->no))
            return false;
    }
    for (uint64_t i = 0; i < f->vote_count; i++) {
        f->nodes[inner + i] = (TreeNode){.mode = TREE_LEAF, .first = i, .count = 1};
        if (!set_vote(f, i, i)) return false;
    }
    for (uint64_t i = 0; i < f->root_count; i++)
        if (!child_of(f, attrs->roots.items[i], false, &f->roots[i])) return false;
    return read_members(f);
}

/* Of a step from node to node, in additions. */
enum { NODE_WORK = 8 };

/* ---- walking --------------------------------------------------------------------------------- */

static bool is_member(const Forest *f, const TreeNode *node, double x) {
    for (uint64_t i = node->first; i < node->first + node->count; i++)
        if (kernel_number(f->attrs->members.data, i) == x) return true;
    return false;
}

static bool decide(const Forest *f, const TreeNode *node, double x) {
    if (x != x) return node->missing_yes;
    switch (node->mode) {
    case TREE_LEQ: return x <= node->split;
    case TREE_LT: return x < node->split;
    case TREE_GTE: return x >= node->split;
    case TREE_GT: return x > node->split;
    case TREE_EQ: return x == node->split;
    case TREE_NEQ: return x != node->split;
    case TREE_MEMBER: return is_member(f, node, x);
    case TREE_LEAF: break;
    }
    return false;
}

/* The leaf a row ends in; NULL with the error set where it goes in circles. */
static const TreeNode *find_leaf(const Forest *f, uint64_t root, const double *x) {
    const TreeNode *node = &f->nodes[root];
    for (uint64_t steps = 0; node->mode != TREE_LEAF; steps++) {
        if (steps == f->count) {
            kernel_fail(f->call, "a tree goes in circles");
            return NULL;
        }
        kernel_pace(f->pace, node->mode == TREE_MEMBER ? NODE_WORK + node->count : NODE_WORK);
        node = &f->nodes[decide(f, node, x[node->feature]) ? node->yes : node->no];
    }
    return node;
}

/* Collects the votes of all trees; targets without any stay 0. */
static bool collect(const Forest *f, const double *x, double *scores, bool *voted) {
    int64_t how = f->attrs->aggregate;
    for (uint64_t i = 0; i < f->targets; i++) voted[i] = false, scores[i] = 0;
    for (uint64_t t = 0; t < f->root_count; t++) {
        const TreeNode *leaf = find_leaf(f, f->roots[t], x);
        if (!leaf) return false;
        kernel_pace(f->pace, leaf->count);
        for (uint64_t i = leaf->first; i < leaf->first + leaf->count; i++) {
            double *score = &scores[f->votes[i].target], weight = f->votes[i].weight;
            bool first = !voted[f->votes[i].target];
            voted[f->votes[i].target] = true;
            if (how == TREE_MIN)
                *score = first || weight < *score ? weight : *score;
            else if (how == TREE_MAX)
                *score = first || weight > *score ? weight : *score;
            else
                *score += weight;
        }
    }
    for (uint64_t i = 0; how == TREE_AVERAGE && i < f->targets; i++)
        scores[i] /= (double)f->root_count;
    return true;
}

/* base_values: one a target, one for all, or none. */
static bool base_check(const Forest *f) {
    uint64_t count = length_of(&f->attrs->base_tensor, &f->attrs->base);
    return count <= 1 || length_is(f->call, "base_values", count, f->targets);
}

static void add_base(const Forest *f, double *scores) {
    uint64_t count = length_of(&f->attrs->base_tensor, &f->attrs->base);
    for (uint64_t i = 0; count && i < f->targets; i++)
        scores[i] += number_of(&f->attrs->base_tensor, &f->attrs->base, count > 1 ? i : 0);
}

/* ---- operators ------------------------------------------------------------------------------- */

static bool regress(KernelCall *call, bool (*read)(Forest *f)) {
    const TreeAttrs *attrs = call->attrs;
    MlRows rows;
    if (!ml_rows(call, &rows)) return false;
    Forest f = {.pace = &rows.pace,
                .call = call,
                .attrs = attrs,
                .features = rows.features,
                .targets = attrs->targets > 0 ? (uint64_t)attrs->targets : 0};
    if (attrs->aggregate < TREE_AVERAGE || attrs->aggregate > TREE_MAX || attrs->transform < 0 ||
        attrs->transform > ML_PROBIT || f.targets == 0)
        return kernel_fail(call, "n_targets, the aggregation or the transform is not valid");
    if (!read(&f) || !base_check(&f)) return false;
    if (!ml_make_scores(call, 0, rows.count, f.targets)) return false;
    double *x = ARENA_ARRAY(call->scratch, double, rows.features);
    double *scores = ARENA_ARRAY(call->scratch, double, f.targets);
    bool *voted = ARENA_ARRAY(call->scratch, bool, f.targets);
    for (uint64_t row = 0; row < rows.count; row++) {
        ml_row(&rows, row, x);
        if (!collect(&f, x, scores, voted)) return false;
        add_base(&f, scores);
        ml_transform((MlTransform)attrs->transform, scores, f.targets);
        ml_set_scores(call, 0, row, scores);
    }
    return true;
}

bool kernel_tree_regressor(KernelCall *call) {
    return regress(call, read_named);
}

bool kernel_tree_ensemble(KernelCall *call) {
    return regress(call, read_placed);
}

/* The only class that leaves vote for, where there is but one; -1 otherwise. */
static int64_t only_class(const TreeAttrs *attrs) {
    if (!attrs->vote_targets.count) return -1;
    for (uint32_t i = 1; i < attrs->vote_targets.count; i++)
        if (attrs->vote_targets.items[i] != attrs->vote_targets.items[0]) return -1;
    return attrs->vote_targets.items[0];
}

/* With two classes (or one label) and votes for one only, the other's score follows from it. */
bool kernel_tree_classifier(KernelCall *call) {
    const TreeAttrs *attrs = call->attrs;
    uint64_t labels = ml_label_count(&attrs->labels);
    int64_t only = only_class(attrs);
    bool binary = only >= 0 && labels <= 2;
    MlRows rows;
    if (!ml_rows(call, &rows)) return false;
    Forest f = {.pace = &rows.pace,
                .call = call,
                .attrs = attrs,
                .features = rows.features,
                .targets = labels};
    TreeAttrs sums = *attrs;
    sums.aggregate = TREE_SUM;
    f.attrs = &sums;
    if (attrs->transform < 0 || labels == 0)
        return kernel_fail(call, "there are no labels, or the transform is unknown");
    if (!read_named(&f) || !base_check(&f)) return false;
    uint64_t columns = binary ? 2 : labels;
    if (!ml_make_labels(call, &attrs->labels, rows.count) ||
        !ml_make_scores(call, 1, rows.count, columns))
        return false;
    double *x = ARENA_ARRAY(call->scratch, double, rows.features);
    double *scores = ARENA_ARRAY(call->scratch, double, columns);
    bool *voted = ARENA_ARRAY(call->scratch, bool, columns);
    for (uint64_t row = 0; row < rows.count; row++) {
        ml_row(&rows, row, x);
        if (!collect(&f, x, scores, voted)) return false;
        add_base(&f, scores);
        for (uint64_t i = 0; i < labels; i++) /* ties are those of float */
            scores[i] = (double)(float)scores[i];
        bool plain = attrs->transform == ML_NONE || attrs->transform == ML_PROBIT;
        if (binary) scores[1] = scores[only];
        if (binary) scores[0] = plain ? 1 - scores[1] : -scores[1];
        ml_transform((MlTransform)attrs->transform, scores, columns);
        int64_t class = (int64_t)ml_largest(scores, columns);
        if (labels == 1 && binary) class = class == 1 ? 0 : -1;
        ml_set_label(call, &attrs->labels, row, class);
        ml_set_scores(call, 1, row, scores);
    }
    return true;
}
