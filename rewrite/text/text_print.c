// SPDX-License-Identifier: Apache-2.0
/* Prints models as text.
 *
 * The syntax is ONNX's textual one, as onnx.parser reads it; a model that needs none of the
 * extensions below prints as text that onnx.parser accepts. Attributes carry their type (`x: ints`)
 * only where the value does not tell it. Extensions, in that grammar's notation:
 *
 *   quoted     strings take the escapes of JSON, and \xNN for one byte; a quoted name may stand for
 *              any name, also an op_type, a domain ("my domain".Op; "".Op where it is present and
 *              empty), an overload, an attribute's name and a subgraph's name
 *   ?          instead of a name, a string or a version: the field is absent; as a dtype: elem_type
 *              is absent; ?N as a dtype or attribute type: the number N
 *   opaque(?)  all of the type is in @type_unknown
 *   ??         a type with nothing set;  seq(), optional(), map(K): the inner type is absent
 *   type       ::= … { @denotation("text") | @type_unknown(hex) | @inner_unknown(hex)
 *                      | @shape_unknown(hex) }
 *   dim        ::= … { @denotation("text") | @dim_unknown(hex) }
 *   entry      ::= string ":" string [ @unknown(hex) ]          entries ::= "[" entry, … "]"
 *   extras     ::= { @doc("text") | @meta entries | @unknown(hex) }
 *                  after: a value's name in a declaration, a tensor, a node, a graph's last brace
 *   tensor     ::= dtype dims [name] ["="] data extras [ @external entries ]
 *   data       ::= [ @raw | @store(field) ] "{" elements "}" | @raw(hex) | "=" entries
 *                  without a word: the dtype's usual field; "=" entries: external data
 *   element    ::= number | string
 *                  16-, 8- and 6-bit floats: 1.5v is a value, 15872 the bits; 4- and 2-bit types:
 *                  values with v, or all entries of int32_data without; float and double: also
 *                  nan(0xBITS); integers may be 0xHEX
 *   sparse     ::= "sparse_tensor" [dims] [name "="] "{" (tensor | "!") "," (tensor | "!") "}"
 *                  [ @unknown(hex) ]        values, indices; in attributes and initializer lists
 *   attr       ::= name [":" type] "=" value { "|" type "=" value } [ @untyped ]
 *                  [ @attr_doc("text") ] [ @attr_unknown(hex) ]
 *                  after "|": further value fields of the same attribute; @untyped: the type field
 *                  is absent;  value ::= … | "!" (absent) | @name [ "=" value ]
 *   graph      ::= … { @quant(ref, string ":" ref, …) }   quantization annotations
 *   node       ::= … { @device(hex [, ref …]) }           ref ::= name [ @unknown(hex) ]
 *   header     ::= … unknown: hex
 *   opset      ::= string ":" version [ @unknown(hex) ]
 *   training   ::= @training "<" [ initialization: graph ] [ algorithm: graph ]
 *                  [ initialization_binding: entries ] [ update_binding: entries ] … ">"
 *                  after the functions
 *
 * hex is a string of hexadecimal digits: wire bytes of fields that the model does not name.
 * TEXT_SHORT writes {… N elements} for large tensors, which the parser refuses.
 */
#include "text.h"

#include <string.h>

#include "text_out.h"
#include "text_words.h"

static void out_graph(TextOut *out, const Graph *graph);

/* A name where nothing else than a name can stand. */
static void out_plain_name(TextOut *out, Sym sym) {
    if (sym && text_is_identifier(sym->text, sym->length))
        out_bytes(out, sym->text, sym->length);
    else
        out_string(out, sym);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void out_float_attr(TextOut *out, float value) {
    char text[TEXT_NUMBER];
    size_t length = text_format_float(text, value);
    out_bytes(out, text, length);
    if (!memchr(text, '.', length) && !memchr(text, 'e', length) && !memchr(text, 'n', length))
        out_text(out, ".0"); /* an integer would be read as one */
}

static void out_attr_item(TextOut *out, const Attr *attr, uint32_t i) {
    switch (attr->type) {
    case ATTR_FLOATS: out_float_attr(out, attr->v.floats[i]); break;
    case ATTR_INTS: out_int(out, attr->v.ints[i]); break;
    case ATTR_STRINGS:
        out_quoted(out, (const char *)attr->v.strings[i].data, attr->v.strings[i].size);
        break;
    case ATTR_TENSORS: out_tensor(out, attr->v.tensors[i], attr->v.tensors[i]->name, false); break;
    case ATTR_GRAPHS: out_graph(out, attr->v.graphs[i]); break;
    case ATTR_SPARSE_TENSORS: out_sparse(out, attr->v.sparses[i], NULL); break;
    case ATTR_TYPES: out_type(out, attr->v.types[i]); break;
    case ATTR_UNDEFINED:
    case ATTR_FLOAT:
    case ATTR_INT:
    case ATTR_STRING:
    case ATTR_TENSOR:
    case ATTR_GRAPH:
    case ATTR_SPARSE_TENSOR:
    case ATTR_TYPE: break;
    }
}

/* True where an attribute of a list type. */
static bool attr_is_list(AttrType type) {
    return (type >= ATTR_FLOATS && type <= ATTR_GRAPHS) || type == ATTR_SPARSE_TENSORS ||
           type == ATTR_TYPES;
}

/* True where the value field is filled; an empty list can't be told from an absent one. */
static bool attr_has_value(const Attr *attr) {
    switch (attr->type) {
    case ATTR_FLOAT:
    case ATTR_INT:
    case ATTR_STRING: return attr->has_value;
    case ATTR_TENSOR: return attr->v.t != NULL;
    case ATTR_GRAPH: return attr->v.g != NULL;
    case ATTR_SPARSE_TENSOR: return attr->v.sparse != NULL;
    case ATTR_TYPE: return attr->v.tp != NULL;
    case ATTR_FLOATS:
    case ATTR_INTS:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: return attr->count > 0;
    case ATTR_UNDEFINED: break;
    }
    return false;
}

static void out_attr_value(TextOut *out, const Attr *attr) {
    if (attr_is_list(attr->type)) {
        out_text(out, "[");
        for (uint32_t i = 0; i < attr->count; i++) {
            if (i) out_text(out, ", ");
            out_attr_item(out, attr, i);
        }
        out_text(out, "]");
        return;
    }
    if (!attr_has_value(attr)) {
        out_text(out, "!");
        return;
    }
    switch (attr->type) {
    case ATTR_FLOAT: out_float_attr(out, attr->v.f); break;
    case ATTR_INT: out_int(out, attr->v.i); break;
    case ATTR_STRING: out_quoted(out, (const char *)attr->v.s.data, attr->v.s.size); break;
    case ATTR_TENSOR: out_tensor(out, attr->v.t, attr->v.t->name, false); break;
    case ATTR_GRAPH: out_graph(out, attr->v.g); break;
    case ATTR_SPARSE_TENSOR: out_sparse(out, attr->v.sparse, NULL); break;
    case ATTR_TYPE: out_type(out, attr->v.tp); break;
    case ATTR_UNDEFINED:
    case ATTR_FLOATS:
    case ATTR_INTS:
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: break;
    }
}

static void out_attr_type(TextOut *out, AttrType type) {
    const char *name = text_word_name(text_attr_types, (int)type);
    if (name) {
        out_text(out, name);
        return;
    }
    out_text(out, "?");
    out_int(out, (int64_t)type);
}

static void out_attr(TextOut *out, const Attr *attr) {
    out_plain_name(out, attr->name);
    bool filled = attr_has_value(attr);
    bool told = attr->ref ? attr->type == ATTR_UNDEFINED && !attr->has_type : filled;
    if (!told) {
        out_text(out, ": ");
        out_attr_type(out, attr->type);
    }
    out_text(out, " = ");
    if (attr->ref) {
        out_text(out, "@");
        out_plain_name(out, attr->ref);
        if (filled) out_text(out, " = ");
    }
    if (filled || !attr->ref) out_attr_value(out, attr);
    for (const Attr *part = attr->also; part; part = part->also) {
        out_text(out, " | ");
        out_attr_type(out, part->type);
        out_text(out, " = ");
        out_attr_value(out, part);
    }
    if (!attr->has_type && !(attr->ref && told)) out_text(out, " @untyped");
    out_mark_string(out, "attr_doc", attr->doc);
    out_rest(out, "attr_unknown", attr->rest);
}

static void out_attrs(TextOut *out, const Attr *attrs) {
    out_text(out, "<");
    for (const Attr *attr = attrs; attr; attr = attr->next) {
        if (attr != attrs) out_text(out, ", ");
        out_attr(out, attr);
    }
    out_text(out, ">");
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void out_ref(TextOut *out, const NameRef *ref, Bytes rest) {
    out_name(out, ref->value ? ref->value->name : ref->name);
    out_rest(out, "unknown", rest);
}

static void out_device(TextOut *out, const DeviceConfig *device) {
    out_text(out, " @device(");
    out_hex(out, device->rest.data, device->rest.size);
    for (uint32_t i = 0; i < device->spec_count; i++) {
        out_text(out, ", ");
        out_ref(out, &device->specs[i].tensor, device->specs[i].rest);
    }
    out_text(out, ")");
}

static void out_operator(TextOut *out, const Node *node) {
    if (node->domain) {
        if (text_is_dotted(node->domain->text, node->domain->length))
            out_bytes(out, node->domain->text, node->domain->length);
        else
            out_string(out, node->domain);
        out_text(out, ".");
    }
    out_plain_name(out, node->op_type);
    Sym overload = node_extra(node)->overload;
    if (!overload) return;
    out_text(out, ":");
    out_plain_name(out, overload);
}

static void note_graph(Graph *graph, void *data) {
    (void)graph;
    *(bool *)data = true;
}

static void out_node(TextOut *out, const Node *node) {
    if (node->name) {
        out_text(out, "[");
        out_name(out, node->name);
        out_text(out, "] ");
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (i) out_text(out, ", ");
        if (node->outputs[i])
            out_name(out, node->outputs[i]->name);
        else
            out_text(out, "\"\"");
    }
    out_text(out, node->output_count ? " = " : "= ");
    out_operator(out, node);
    bool graphs = false;
    node_each_graph(node, note_graph, &graphs);
    if (node->attrs && !graphs) {
        out_text(out, " ");
        out_attrs(out, node->attrs);
    }
    out_text(out, " (");
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (i) out_text(out, ", ");
        if (node->inputs[i].value)
            out_name(out, node->inputs[i].value->name);
        else
            out_text(out, "\"\"");
    }
    out_text(out, ")");
    if (graphs) {
        out_text(out, " ");
        out_attrs(out, node->attrs);
    }
    const NodeExtra *extra = node_extra(node);
    for (uint32_t i = 0; i < extra->device_count; i++) out_device(out, &extra->devices[i]);
    out_extras(out, extra->doc, node->metadata, extra->rest);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void out_decl(TextOut *out, const ValueDecl *decl, Sym name) {
    if (decl->type) {
        out_type(out, decl->type);
        out_text(out, " ");
    }
    out_name(out, name);
    out_extras(out, decl->doc, decl->metadata, decl->rest);
}

static void out_signature(TextOut *out, const Graph *graph) {
    out_text(out, "(");
    for (size_t i = 0; i < graph->inputs.count; i++) {
        if (i) out_text(out, ", ");
        out_decl(out, graph->inputs.items[i]->input, graph->inputs.items[i]->name);
    }
    out_text(out, ") => (");
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const GraphOutput *output = graph->outputs.items[i];
        if (i) out_text(out, ", ");
        out_decl(out, output->decl, output->use.value->name);
    }
    out_text(out, ")");
}

static void out_separator(TextOut *out, bool *first) {
    if (!*first) out_text(out, ",");
    out_line(out, *first ? 0 : 1);
    if (*first) out_text(out, "<");
    *first = false;
}

/* Initializers and value_info entries; true where there was one. */
static bool out_values(TextOut *out, const Graph *graph) {
    bool first = true;
    for (size_t i = 0; i < graph->initializers.count; i++) {
        const Value *value = graph->initializers.items[i];
        out_separator(out, &first);
        out_tensor(out, value->init, value->name, true);
    }
    for (size_t i = 0; i < graph->sparse_initializers.count; i++) {
        const Value *value = graph->sparse_initializers.items[i];
        out_separator(out, &first);
        out_sparse(out, value->sparse_init, value->name);
    }
    for (size_t i = 0; i < graph->infos.count; i++) {
        const Value *value = graph->infos.items[i];
        if (!value->info) continue; /* a pass that failed has left it */
        out_separator(out, &first);
        out_decl(out, value->info, value->name);
    }
    if (!first) out_text(out, ">");
    return !first;
}

static void out_annotation(TextOut *out, const QuantAnnotation *annotation) {
    out_text(out, " @quant(");
    out_ref(out, &annotation->tensor, annotation->rest);
    for (uint32_t i = 0; i < annotation->param_count; i++) {
        out_text(out, ", ");
        out_string(out, annotation->param_keys[i]);
        out_text(out, ": ");
        out_ref(out, &annotation->params[i], annotation->param_rests[i]);
    }
    out_text(out, ")");
}

static void out_body(TextOut *out, const Graph *graph) {
    if (out_values(out, graph))
        out_line(out, 0);
    else
        out_text(out, " ");
    out_text(out, "{");
    out->indent++;
    for (const Node *node = graph->first; node; node = node_after(node)) {
        out_line(out, 0);
        out_node(out, node);
    }
    out->indent--;
    out_line(out, 0);
    out_text(out, "}");
    for (size_t i = 0; i < graph->annotations.count; i++)
        out_annotation(out, &graph->annotations.items[i]);
    out_extras(out, graph->doc, graph->metadata, graph->rest);
}

static void out_graph(TextOut *out, const Graph *graph) {
    out_name(out, graph->name);
    out_text(out, " ");
    out_signature(out, graph);
    out_body(out, graph);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Begins one field of a header. */
static void out_field_name(TextOut *out, TextField field, bool *first) {
    if (*first)
        out_text(out, "<");
    else
        out_text(out, field == FIELD_OPSET_IMPORT || field == FIELD_OVERLOAD ? ", " : ",\n ");
    *first = false;
    out_text(out, text_word_name(text_fields, (int)field));
    out_text(out, ": ");
}

static void out_field_string(TextOut *out, TextField field, Sym text, bool *first) {
    if (!text) return;
    out_field_name(out, field, first);
    out_string(out, text);
}

static void out_field_rest(TextOut *out, Bytes rest, bool *first) {
    if (rest.size == 0) return;
    out_field_name(out, FIELD_UNKNOWN, first);
    out_hex(out, rest.data, rest.size);
}

static void out_opsets(TextOut *out, const OpsetImports *opsets, bool *first) {
    if (opsets->count == 0) return;
    out_field_name(out, FIELD_OPSET_IMPORT, first);
    for (size_t i = 0; i < opsets->count; i++) {
        const OpsetImport *import = &opsets->items[i];
        out_text(out, i ? ", " : "[");
        out_string(out, import->domain);
        out_text(out, " : ");
        if (import->has_version)
            out_int(out, import->version);
        else
            out_text(out, "?");
        out_rest(out, "unknown", import->rest);
    }
    out_text(out, "]");
}

static void out_metadata(TextOut *out, const KeyValue *metadata, bool *first) {
    if (!metadata) return;
    out_field_name(out, FIELD_METADATA, first);
    out_entries(out, metadata);
}

static void out_header(TextOut *out, const Model *model) {
    bool first = true;
    if (model->has_ir_version) {
        out_field_name(out, FIELD_IR_VERSION, &first);
        out_int(out, model->ir_version);
    }
    out_opsets(out, &model->opsets, &first);
    out_field_string(out, FIELD_PRODUCER_NAME, model->producer_name, &first);
    out_field_string(out, FIELD_PRODUCER_VERSION, model->producer_version, &first);
    out_field_string(out, FIELD_DOMAIN, model->domain, &first);
    if (model->has_model_version) {
        out_field_name(out, FIELD_MODEL_VERSION, &first);
        out_int(out, model->model_version);
    }
    out_field_string(out, FIELD_DOC, model->doc, &first);
    out_metadata(out, model->metadata, &first);
    out_field_rest(out, model->rest, &first);
    if (!first) out_text(out, ">\n");
}

static void out_parameters(TextOut *out, const Function *function) {
    if (function->attributes.count == 0 && !function->attribute_protos) return;
    out_text(out, "<");
    for (size_t i = 0; i < function->attributes.count; i++) {
        if (i) out_text(out, ", ");
        out_plain_name(out, function->attributes.items[i]);
    }
    for (const Attr *attr = function->attribute_protos; attr; attr = attr->next) {
        if (function->attributes.count || attr != function->attribute_protos) out_text(out, ", ");
        out_attr(out, attr);
    }
    out_text(out, "> ");
}

static void out_function(TextOut *out, const Function *function) {
    bool first = true;
    out_field_string(out, FIELD_DOMAIN, function->domain, &first);
    out_field_string(out, FIELD_OVERLOAD, function->overload, &first);
    out_opsets(out, &function->opsets, &first);
    out_field_string(out, FIELD_DOC, function->doc, &first);
    out_metadata(out, function->metadata, &first);
    out_field_rest(out, function->rest, &first);
    if (!first) out_text(out, ">\n");
    out_name(out, function->name);
    out_text(out, " ");
    out_parameters(out, function);
    out_signature(out, function->body);
    out_body(out, function->body);
    out_text(out, "\n");
}

typedef struct Bindings {
    const TrainingBinding *items;
    size_t count;
} Bindings;

static void out_bindings(TextOut *out, TextField field, Bindings bindings, bool *first) {
    if (bindings.count == 0) return;
    out_field_name(out, field, first);
    out_text(out, "[");
    for (size_t i = 0; i < bindings.count; i++) {
        const NameRef *key = &bindings.items[i].key, *value = &bindings.items[i].value;
        if (i) out_text(out, ", ");
        out_string(out, key->value ? key->value->name : key->name);
        out_text(out, ": ");
        out_string(out, value->value ? value->value->name : value->name);
        out_rest(out, "unknown", bindings.items[i].rest);
    }
    out_text(out, "]");
}

static void out_training(TextOut *out, const TrainingInfo *info) {
    bool first = true;
    out_text(out, "@training ");
    if (info->initialization) {
        out_field_name(out, FIELD_INITIALIZATION, &first);
        out_graph(out, info->initialization);
    }
    if (info->algorithm) {
        out_field_name(out, FIELD_ALGORITHM, &first);
        out_graph(out, info->algorithm);
    }
    Bindings initial = {info->initialization_bindings.items, info->initialization_bindings.count};
    Bindings update = {info->update_bindings.items, info->update_bindings.count};
    out_bindings(out, FIELD_INITIALIZATION_BINDING, initial, &first);
    out_bindings(out, FIELD_UPDATE_BINDING, update, &first);
    out_field_rest(out, info->rest, &first);
    out_text(out, first ? "<>\n" : ">\n");
}

bool text_print_model(const Model *model, TextDetail detail, const TextSink *sink, Err *err) {
    TextOut out;
    out.sink = sink;
    out.err = err;
    out.detail = detail;
    out.failed = false;
    out.indent = 0;
    out.used = 0;
    out_header(&out, model);
    out_graph(&out, model->graph);
    out_text(&out, "\n");
    for (size_t i = 0; i < model->functions.count; i++)
        out_function(&out, model->functions.items[i]);
    for (size_t i = 0; i < model->training.count; i++) out_training(&out, model->training.items[i]);
    out_flush(&out);
    return !out.failed;
}

bool text_is_likely(const unsigned char *bytes, size_t size) {
    /* A serialized model has small lengths and versions within its first bytes, which are control
     * characters; text has none but white space, and a header, a comment or a signature. */
    size_t i = 0, seen = size < 512 ? size : 512;
    while (i < seen && (bytes[i] == ' ' || (bytes[i] >= '\t' && bytes[i] <= '\r'))) i++;
    if (i == seen) return false;
    char first = (char)bytes[i];
    bool plain = text_is_identifier(&first, 1) || first == '"' || first == '?';
    if (first != '<' && first != '#' && !(plain && memchr(bytes, '(', seen))) return false;
    for (; i < seen; i++)
        if (bytes[i] < 0x20 && !(bytes[i] >= '\t' && bytes[i] <= '\r')) return false;
    return true;
}
