// SPDX-License-Identifier: Apache-2.0
/* Binding a node's attributes to those of a call; see call_node.h. */
#include "call_node.h"

#include "verify.h"

static bool refers(const Node *node) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (attr->ref) return true;
    return false;
}

static Attr *bound_attrs(const CallFrame *frame, const Attr *attrs, Arena *arena) {
    Attr *first = NULL, **last = &first;
    for (; attrs; attrs = attrs->next) {
        const CallFrame *from = frame;
        const Attr *given = call_attr(&from, attrs);
        if (!given) continue;
        Attr *bound = ARENA_NEW(arena, Attr);
        *bound = *given;
        bound->name = attrs->name;
        bound->next = NULL;
        *last = bound;
        last = &bound->next;
    }
    return first;
}

/* A graph that a call gives means the parameters of the function that the call stands in, not those
 * of the one that is called: it is looked at where it stands. */
static void drop_given_graphs(const Node *node, Node *bound) {
    for (Attr **at = &bound->attrs; *at;) {
        const Attr *own = node_attr(node, sym_text((*at)->name));
        bool given = own && own->ref && attr_graph(*at);
        if (given)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

/* A Constant requires no attribute of its own, only one of them. */
static bool lost_its_value(const Node *bound) {
    return !bound->attrs && domain_is_default(bound->domain) &&
           sym_equals(bound->op_type, "Constant");
}

const Node *call_node(const CallFrame *frame, const Node *node, Arena *arena, Err *err) {
    if (!frame || !refers(node)) return node;
    Node *bound = ARENA_NEW(arena, Node);
    *bound = *node;
    bound->attrs = bound_attrs(frame, node->attrs, arena);
    if (!node_attrs_check(bound, err)) return NULL;
    if (!lost_its_value(bound)) {
        drop_given_graphs(node, bound);
        return bound;
    }
    node_error(node, err, ERR_MODEL, "a call gives it no value");
    return NULL;
}
