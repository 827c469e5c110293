// SPDX-License-Identifier: Apache-2.0
/* Readers noted by the text parser; see text_scope.h. */
#include "text_scope.h"

void readers_add(Readers *readers, Reader reader) {
    VEC_PUSH(readers->scratch, &readers->list, reader);
}

void readers_resolve(Readers *readers) {
    for (size_t i = 0; i < readers->list.count; i++) {
        const Reader *reader = &readers->list.items[i];
        if (reader->ref) {
            scope_refer(reader->scope, reader->ref);
            continue;
        }
        Value *value = scope_resolve(reader->scope, readers->scratch, reader->name);
        if (reader->node) {
            node_set_input(reader->node, reader->index, value);
            continue;
        }
        Graph *graph = reader->scope->graph;
        if (!value->type && value->graph == graph) value->type = reader->decl->type;
        graph_add_output(graph, value, reader->decl);
    }
    readers->list.count = 0;
}
