// SPDX-License-Identifier: Apache-2.0
/* Declarations of inner graphs after their values changed types. */
#include "declared_types.h"

void declared_types_follow(Graph *graph) {
    bool main_graph = graph == graph->model->graph;
    for (size_t i = 0; !main_graph && i < graph->inputs.count; i++) {
        Dtype dtype = type_dtype(graph->inputs.items[i]->type);
        if (dtype) value_declare_input(graph->inputs.items[i], dtype);
    }
    for (size_t i = 0; !main_graph && i < graph->outputs.count; i++) {
        Dtype dtype = type_dtype(graph->outputs.items[i]->use.value->type);
        if (dtype) graph_declare_output(graph, (uint32_t)i, dtype);
    }
    for (size_t i = 0; i < graph->infos.count; i++) value_sync_info(graph->infos.items[i]);
}
