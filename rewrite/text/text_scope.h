// SPDX-License-Identifier: Apache-2.0
/* Names of a text while it is parsed.
 *
 * A graph may read names before the text defines them (in files whose nodes are in no order, and in
 * subgraphs), so readers are only noted, and resolved when the outermost graph has ended: to the
 * nearest enclosing graph that defines the name, else to an undefined value of the reader's graph.
 */
#ifndef DEMI_TEXT_SCOPE_H
#define DEMI_TEXT_SCOPE_H

#include "scope.h"

typedef struct Reader {
    Scope *scope;
    Sym name;
    Node *node; /* a node's input `index`, or */
    uint32_t index;
    ValueDecl *decl; /* a graph's output, or */
    NameRef *ref;    /* a reference */
} Reader;

typedef struct Readers {
    Arena *scratch;
    VEC(Reader) list;
} Readers;

void readers_add(Readers *readers, Reader reader);

/* Resolves all that were noted, in their order, and forgets them. */
void readers_resolve(Readers *readers);

#endif
