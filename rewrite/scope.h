// SPDX-License-Identifier: Apache-2.0
/* Names in scope while a model is read, from the wire or from text.
 *
 * Each graph has a table of its own values; captures look further out. Models need not be sorted,
 * so a name is resolved only when all definitions of its graph are known: to the nearest enclosing
 * graph that defines it, else to an undefined value of the reader's graph.
 */
#ifndef DEMI_SCOPE_H
#define DEMI_SCOPE_H

#include "graph.h"

typedef struct Scope {
    Graph *graph;
    const struct Scope *parent;
    Value **slots; /* by name; open addressing, a power of two, or, */
    bool direct;   /* of the main graph, by the name's number: most names are its */
    size_t capacity, count;
} Scope;

/* All memory of scopes is of `scratch`; values are the model's. */
Scope *scope_new(Arena *scratch, Graph *graph, const Scope *parent);

/* Makes room for `count` names more, so that the table need not grow on the way there. */
void scope_reserve(Scope *scope, Arena *scratch, size_t count);

/* This graph's value of that name, defined or not; NULL where there is none. */
Value *scope_find(const Scope *scope, Sym name);

/* scope_find, or a new value of the graph. */
Value *scope_declare(Scope *scope, Arena *scratch, Sym name);

/* The defined value that the name means here, looking outwards; NULL where there is none. */
Value *scope_lookup(const Scope *scope, Sym name);

/* scope_lookup, or an undefined value of this graph, listed in graph->undefined. */
Value *scope_resolve(Scope *scope, Arena *scratch, Sym name);

/* Resolves a reference by name and marks what it refers to, unless it names an operand. */
void scope_refer(const Scope *scope, NameRef *reference);

/* True where something gives the value its data. */
bool value_is_defined(const Value *value);

#endif
