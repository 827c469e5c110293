// SPDX-License-Identifier: Apache-2.0
/* Export of the containers: graphs, functions, training info, the model. */
#include "export_parts.h"

static void put_annotation(ExportPlan *plan, const QuantAnnotation *annotation) {
    WireWriter *w = &plan->w;
    writer_open(w, PB_GRAPH_QUANTIZATION_ANNOTATION, &onnx__tensor_annotation__descriptor,
                annotation->rest);
    put_name_ref(plan, PB_ANNOTATION_TENSOR_NAME, &annotation->tensor);
    for (uint32_t i = 0; i < annotation->param_count; i++) {
        writer_open(w, PB_ANNOTATION_PARAMS, &onnx__string_string_entry_proto__descriptor,
                    annotation->param_rests[i]);
        writer_put_sym(w, PB_ENTRY_KEY, annotation->param_keys[i]);
        put_name_ref(plan, PB_ENTRY_VALUE, &annotation->params[i]);
        writer_close(w);
    }
    writer_close(w);
}

static void put_initializers(ExportPlan *plan, const Graph *graph) {
    for (size_t i = 0; i < graph->initializers.count; i++) {
        const Value *value = graph->initializers.items[i];
        bool unnamed = value->name->length == 0 && !value->init->name;
        const TensorField field = {.number = PB_GRAPH_INITIALIZER,
                                   .role = ROLE_INITIALIZER,
                                   .name = unnamed ? NULL : value->name};
        put_tensor(plan, &field, value->init);
    }
}

static void put_sparse_initializers(ExportPlan *plan, const Graph *graph) {
    for (size_t i = 0; i < graph->sparse_initializers.count; i++) {
        const Value *value = graph->sparse_initializers.items[i];
        const TensorField field = {
            .number = PB_GRAPH_SPARSE_INITIALIZER, .role = ROLE_OTHER, .name = value->name};
        put_sparse_tensor(plan, &field, value->sparse_init);
    }
}

static void put_infos(ExportPlan *plan, uint32_t number, const Graph *graph) {
    for (size_t i = 0; i < graph->infos.count; i++) {
        const Value *value = graph->infos.items[i];
        if (value->info) /* else a pass that failed has left it */
            put_value_info(plan, number, value->name, value->info);
    }
}

static void put_graph_fields(ExportPlan *plan, const Graph *graph) {
    WireWriter *w = &plan->w;
    for (const Node *node = graph->first; node && !w->failed; node = node_after(node))
        put_node(plan, PB_GRAPH_NODE, node);
    writer_put_sym(w, PB_GRAPH_NAME, graph->name);
    put_initializers(plan, graph);
    writer_put_sym(w, PB_GRAPH_DOC_STRING, graph->doc);
    for (size_t i = 0; i < graph->inputs.count; i++)
        put_value_info(plan, PB_GRAPH_INPUT, graph->inputs.items[i]->name,
                       graph->inputs.items[i]->input);
    for (size_t i = 0; i < graph->outputs.count; i++)
        put_value_info(plan, PB_GRAPH_OUTPUT, graph->outputs.items[i]->use.value->name,
                       graph->outputs.items[i]->decl);
    put_infos(plan, PB_GRAPH_VALUE_INFO, graph);
    for (size_t i = 0; i < graph->annotations.count; i++)
        put_annotation(plan, &graph->annotations.items[i]);
    put_sparse_initializers(plan, graph);
    put_entries(plan, PB_GRAPH_METADATA_PROPS, graph->metadata);
}

void put_graph(ExportPlan *plan, uint32_t number, const Graph *graph) {
    writer_open(&plan->w, number, &onnx__graph_proto__descriptor, graph->rest);
    if (!plan->w.failed) plan->w.failed = !graph_check_nesting(graph, plan->w.err);
    if (!plan->w.failed) put_graph_fields(plan, graph); /* nor deeper than the writer can hold */
    writer_close(&plan->w);
}

static bool function_has_form(ExportPlan *plan, const Function *function) {
    const Graph *body = function->body;
    if (body->initializers.count == 0 && body->sparse_initializers.count == 0) return true;
    err_set(plan->w.err, ERR_MODEL, "a function's body can't hold initializers in an ONNX file");
    err_graph(plan->w.err, body);
    plan->w.failed = true;
    return false;
}

static void put_function(ExportPlan *plan, uint32_t number, const Function *function) {
    WireWriter *w = &plan->w;
    const Graph *body = function->body;
    if (!function_has_form(plan, function)) return;
    writer_open(w, number, &onnx__function_proto__descriptor, function->rest);
    writer_put_sym(w, PB_FUNCTION_NAME, function->name);
    for (size_t i = 0; i < body->inputs.count; i++)
        writer_put_sym(w, PB_FUNCTION_INPUT, body->inputs.items[i]->name);
    for (size_t i = 0; i < body->outputs.count; i++)
        writer_put_sym(w, PB_FUNCTION_OUTPUT, body->outputs.items[i]->use.value->name);
    for (size_t i = 0; i < function->attributes.count; i++)
        writer_put_sym(w, PB_FUNCTION_ATTRIBUTE, function->attributes.items[i]);
    for (const Node *node = body->first; node && !w->failed; node = node_after(node))
        put_node(plan, PB_FUNCTION_NODE, node);
    writer_put_sym(w, PB_FUNCTION_DOC_STRING, function->doc);
    put_opsets(plan, PB_FUNCTION_OPSET_IMPORT, &function->opsets);
    writer_put_sym(w, PB_FUNCTION_DOMAIN, function->domain);
    for (const Attr *attr = function->attribute_protos; attr; attr = attr->next)
        put_attr(plan, PB_FUNCTION_ATTRIBUTE_PROTO, attr);
    put_infos(plan, PB_FUNCTION_VALUE_INFO, body);
    writer_put_sym(w, PB_FUNCTION_OVERLOAD, function->overload);
    put_entries(plan, PB_FUNCTION_METADATA_PROPS, function->metadata);
    writer_close(w);
}

static void put_binding(ExportPlan *plan, uint32_t number, const TrainingBinding *binding) {
    writer_open(&plan->w, number, &onnx__string_string_entry_proto__descriptor, binding->rest);
    put_name_ref(plan, PB_ENTRY_KEY, &binding->key);
    put_name_ref(plan, PB_ENTRY_VALUE, &binding->value);
    writer_close(&plan->w);
}

static void put_training(ExportPlan *plan, const TrainingInfo *info) {
    writer_open(&plan->w, PB_MODEL_TRAINING_INFO, &onnx__training_info_proto__descriptor,
                info->rest);
    if (info->initialization) put_graph(plan, PB_TRAINING_INITIALIZATION, info->initialization);
    if (info->algorithm) put_graph(plan, PB_TRAINING_ALGORITHM, info->algorithm);
    for (size_t i = 0; i < info->initialization_bindings.count; i++)
        put_binding(plan, PB_TRAINING_INITIALIZATION_BINDING,
                    &info->initialization_bindings.items[i]);
    for (size_t i = 0; i < info->update_bindings.count; i++)
        put_binding(plan, PB_TRAINING_UPDATE_BINDING, &info->update_bindings.items[i]);
    writer_close(&plan->w);
}

void put_model(ExportPlan *plan) {
    WireWriter *w = &plan->w;
    const Model *model = plan->model;
    writer_open_root(w, &onnx__model_proto__descriptor, model->rest);
    if (model->has_ir_version)
        writer_put_varint(w, PB_MODEL_IR_VERSION, (uint64_t)model->ir_version);
    writer_put_sym(w, PB_MODEL_PRODUCER_NAME, model->producer_name);
    writer_put_sym(w, PB_MODEL_PRODUCER_VERSION, model->producer_version);
    writer_put_sym(w, PB_MODEL_DOMAIN, model->domain);
    if (model->has_model_version)
        writer_put_varint(w, PB_MODEL_MODEL_VERSION, (uint64_t)model->model_version);
    writer_put_sym(w, PB_MODEL_DOC_STRING, model->doc);
    put_graph(plan, PB_MODEL_GRAPH, model->graph);
    put_opsets(plan, PB_MODEL_OPSET_IMPORT, &model->opsets);
    put_entries(plan, PB_MODEL_METADATA_PROPS, model->metadata);
    for (size_t i = 0; i < model->training.count; i++) put_training(plan, model->training.items[i]);
    for (size_t i = 0; i < model->functions.count; i++)
        put_function(plan, PB_MODEL_FUNCTIONS, model->functions.items[i]);
    writer_close(w);
}
